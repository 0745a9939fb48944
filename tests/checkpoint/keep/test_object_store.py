"""Copies in an object store: a checkpoint is there when its manifest is, and what is fetched is what was put."""

import contextlib
import os

import fsspec
import pytest
import torch

import monolith as mono
from monolith.checkpoint.format.state_files import add_exempt_paths
from monolith.checkpoint.keep import SnapshotStore, roll_back
from monolith.errors import CorruptFileError, FencedError


class _FailsAfter:
    """Lets so many objects through, then the connection is lost."""

    def __init__(self, monkeypatch, store, count):
        self._left = count
        for name in ("put_file", "pipe_file"):
            monkeypatch.setattr(store._files, name, self._limited(getattr(store._files, name)))

    def _limited(self, real):
        def call(*arguments, **options):
            self._left -= 1
            if self._left < 0:
                raise OSError("connection lost")
            return real(*arguments, **options)

        return call


class _StopsAfter:
    """Lets so many objects be removed, then the process is gone; `rm` of a folder removes its objects one by one."""

    def __init__(self, monkeypatch, files, count):
        self._left, self._files, self._remove_one = count, files, files.rm_file
        monkeypatch.setattr(files, "rm_file", self._remove)
        monkeypatch.setattr(files, "rm", self._remove_all)

    def _remove_all(self, path, recursive=False):
        for one in sorted(self._files.find(path)):
            self._remove(one)

    def _remove(self, path):
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        self._remove_one(path)


class Tiny(mono.MonolithModel):
    def __init__(self, params=None):
        super().__init__(params)
        self.create_embedding_feature_column("uid")
        self.create_embedding_feature_column("mov")
        self.tower = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.1)

    def input_fn(self, mode):
        return mono.data.synthetic(mono.data.MovieEvents(3), batch_size=64, count=64 * 40)

    def model_fn(self, features, mode):
        rows = self.lookup_embedding_slice(["uid", "mov"], "vec", 2, out_type="concat")
        logit = self.tower(rows).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, features["label"])
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def train(folder, store_url, steps, **settings):
    quiet = dict(log_step_count_steps=0, save_summary_steps=0)
    config = mono.RunConfig(model_dir=str(folder), mirror_dir=store_url, **quiet, **settings)
    return mono.Estimator(Tiny, config).train(max_steps=steps)


def test_a_run_goes_on_from_the_copy_on_another_machine(tmp_path, store_url):
    whole = train(tmp_path / "undisturbed", None, 20)
    train(tmp_path / "first", store_url, 12, save_checkpoints_steps=5, delta_every_steps=2)
    assert SnapshotStore(store_url).names()[-1] == "model.ckpt-10.delta-1"  # of step 12
    went_on = train(tmp_path / "second", store_url, 20)
    assert went_on.loss == whole.loss
    assert went_on.global_step == 20


def test_the_copy_keeps_what_the_folder_keeps(tmp_path, store_url):
    train(tmp_path / "model", store_url, 12, save_checkpoints_steps=2, checkpoints_max_to_keep=2)
    there = sorted(path.name for path in (tmp_path / "model").glob("model.ckpt-*"))
    assert SnapshotStore(store_url).names() == sorted(there, key=lambda name: int(name.split("-")[1]))


def test_whatever_object_is_the_last_to_arrive_half_a_checkpoint_is_none(tmp_path, store_url, monkeypatch):
    train(tmp_path, None, 4)
    path = tmp_path / "model.ckpt-4"
    num_objects = sum(one.is_file() for one in path.rglob("*"))
    for count in range(num_objects):
        store = SnapshotStore(store_url)
        with monkeypatch.context() as patch:
            _FailsAfter(patch, store, count)
            with pytest.raises(OSError, match="connection lost"):
                store.put(path)
        assert store.names() == []
    SnapshotStore(store_url).put(path)
    assert SnapshotStore(store_url).names() == ["model.ckpt-4"]


def test_half_of_a_checkpoint_over_another_of_its_name_is_none(tmp_path, store_url, monkeypatch):
    train(tmp_path / "abandoned", None, 4)
    train(tmp_path / "model", None, 4)
    old, new = (tmp_path / name / "model.ckpt-4" for name in ("abandoned", "model"))
    store = SnapshotStore(store_url)
    for count in range(sum(one.is_file() for one in new.rglob("*"))):
        store.put(old)
        with monkeypatch.context() as patch:
            _FailsAfter(patch, store, count)
            with pytest.raises(OSError, match="connection lost"):
                store.put(new)
        assert store.names() == []  # the old manifest does not vouch for the new files


def test_what_is_fetched_is_on_the_disk_before_it_has_its_name(tmp_path, store_url, monkeypatch):
    train(tmp_path / "model", store_url, 4)
    real_sync, real_rename, flushed = os.fsync, os.rename, []

    def sync(descriptor):
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real_sync(descriptor)

    def rename(source, target):
        flushed.append(f"rename to {target}")
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    path = SnapshotStore(store_url).fetch(tmp_path / "other")
    temporary = path.with_name(f"{path.name}.tmp")
    before = flushed[: flushed.index(f"rename to {path}")]
    inside = [temporary / one.relative_to(path) for one in path.rglob("*")]
    assert {str(one) for one in [temporary, *inside]} <= set(before)
    assert str(path.parent) in flushed[len(before) :], "the name itself is flushed"


def test_whatever_object_is_the_last_to_go_half_a_checkpoint_is_none(tmp_path, store_url, monkeypatch):
    train(tmp_path, None, 4)
    old, new = tmp_path / "model.ckpt-0", tmp_path / "model.ckpt-4"
    store = SnapshotStore(store_url)
    num_objects = sum(one.is_file() for one in old.rglob("*"))
    for count in range(num_objects + 1):
        store.put(old)
        store.put(new)
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            _StopsAfter(patch, store._files, count)
            store.retire([new.name], new.name, 1)
        assert store.names() == (["model.ckpt-0", "model.ckpt-4"] if count == 0 else ["model.ckpt-4"])
        for name in store.names():
            assert store.fetch(tmp_path / f"fetched-{count}", name) is not None


def test_what_was_damaged_on_the_way_is_not_fetched(tmp_path, store_url):
    train(tmp_path / "model", store_url, 4)
    files = fsspec.filesystem("memory")
    place = next(
        path for path in files.find(store_url.split("//")[1]) if path.endswith("model.ckpt-4/dense.safetensors")
    )
    content = bytearray(files.cat_file(place))
    content[-1] ^= 1
    files.pipe_file(place, bytes(content))
    with pytest.raises(CorruptFileError, match="checksum"):
        SnapshotStore(store_url).fetch(tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(tmp_path, store_url):
    assert SnapshotStore(store_url).fetch(tmp_path) is None
    train(tmp_path / "model", store_url, 2)
    with pytest.raises(FileNotFoundError, match=r"model\.ckpt-9.*it has model\.ckpt-0, model\.ckpt-2"):
        SnapshotStore(store_url).fetch(tmp_path, "model.ckpt-9")


def test_a_folder_will_do(tmp_path):
    train(tmp_path / "model", str(tmp_path / "copies"), 3)
    assert SnapshotStore(str(tmp_path / "copies")).names() == ["model.ckpt-0", "model.ckpt-3"]
    assert SnapshotStore(str(tmp_path / "copies")).fetch(tmp_path / "other").name == "model.ckpt-3"


def test_a_new_machine_loses_nothing_that_the_old_one_kept(tmp_path, store_url):
    settings = dict(save_checkpoints_steps=2, checkpoints_max_to_keep=3)
    (tmp_path / "first").mkdir()
    train(tmp_path / "first", store_url, 2, **settings)
    add_exempt_paths(tmp_path / "first", ["model.ckpt-2"])
    train(tmp_path / "first", store_url, 10, **settings)
    assert SnapshotStore(store_url).names() == [f"model.ckpt-{step}" for step in (2, 6, 8, 10)]
    # The new one has only the newest, and takes its place in the count from step to step.
    for step, names in [(12, (2, 8, 10, 12)), (14, (2, 10, 12, 14)), (18, (2, 14, 16, 18))]:
        train(tmp_path / "second", store_url, step, **settings)
        assert SnapshotStore(store_url).names() == [f"model.ckpt-{one}" for one in names]
    assert SnapshotStore(store_url).fetch(tmp_path / "third", "model.ckpt-2") is not None
    assert (tmp_path / "third" / "model.ckpt-2" / "preserved").exists()


def test_what_was_gone_back_from_leaves_the_copy(tmp_path, store_url):
    train(tmp_path / "model", store_url, 12, save_checkpoints_steps=5, delta_every_steps=2)
    roll_back(tmp_path / "model" / "model.ckpt-5")
    train(tmp_path / "model", store_url, 6)
    names = ["model.ckpt-0", "model.ckpt-2", "model.ckpt-2.delta-1", "model.ckpt-5", "model.ckpt-6"]
    assert SnapshotStore(store_url).names() == names
    assert train(tmp_path / "other", store_url, 7).global_step == 7


def test_a_machine_that_was_replaced_does_not_write_over_its_successor(tmp_path, store_url):
    train(tmp_path / "old", store_url, 4)
    train(tmp_path / "new", store_url, 6)
    newest = SnapshotStore(store_url).names()
    with pytest.raises(FencedError, match=r"model\.ckpt-6 there is of generation 1, this run is of generation 0"):
        SnapshotStore(store_url).put(tmp_path / "old" / "model.ckpt-4")
    assert SnapshotStore(store_url).names() == newest
