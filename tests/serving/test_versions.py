"""Versions of a served model come and go: newer ones answer, removed and pinned ones roll back, nothing is lost."""

import shutil
import weakref
from contextlib import ExitStack

import numpy as np
import pytest
import torch

from monolith.delta import DeltaSender, DeltaSettings
from monolith.errors import CorruptFileError, RemoteError
from monolith.export.description import FileCheck
from monolith.export.versions import WARM_UP_FILE
from monolith.serving.models import served_model
from monolith.serving.models.follower import Follower
from monolith.serving.models.models import Models
from monolith.serving.models.served_model import ModelConfig, NotServedError, ServedModel
from monolith.serving.models.warm_up import warm_up
from monolith.serving.pauses import short_pauses
from monolith.wire import SharedSecret
from tests.export.crafted import rewrite
from tests.export.movie import eager, export, randomize, request, trained

COLUMNS = request(20)


def served(base, **options):
    config = {name: options.pop(name) for name in ("name", "version") if name in options}
    return ServedModel(ModelConfig(base=base, **config), **options)


def answer(model):
    return model.predict(COLUMNS)["pred"]


def truth(seed):
    return eager(*trained(seed), COLUMNS)


def assert_near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_a_newer_version_answers_and_the_old_one_finishes_its_requests_and_is_freed(tmp_path):
    export(tmp_path, 1, seed=1)
    model = served(tmp_path)
    old = model.find()
    export(tmp_path, 2, seed=2)
    model.refresh()
    assert (model.find().version, old.version) == (2, 1)
    assert_near(answer(model.find()), truth(2))
    assert_near(answer(old), truth(1))
    with pytest.raises(NotServedError, match=r"has no version '1' here; it has '2'"):
        model.find("1")
    is_there = weakref.ref(old)
    # A server's collector does not look at what was there when it started: no cycle may hold a version.
    with short_pauses():
        del old
        assert is_there() is None


def test_versions_before_the_newest_are_kept_if_asked(tmp_path):
    export(tmp_path, 1, seed=1)
    model = served(tmp_path, num_kept=2)
    for number in (2, 3):
        export(tmp_path, number, seed=number)
        model.refresh()
    assert [one.version for one in model.held] == [3, 2]
    assert_near(answer(model.find("2")), truth(2))
    shutil.rmtree(tmp_path / "2")
    model.refresh()
    with pytest.raises(NotServedError):
        model.find("2")


def test_if_the_newest_version_is_removed_the_one_before_answers_and_the_last_one_stays(tmp_path):
    for number in (1, 2):
        export(tmp_path, number, seed=number)
    model = served(tmp_path)
    shutil.rmtree(tmp_path / "2")
    model.refresh()
    assert_near(answer(model.find()), truth(1))
    shutil.rmtree(tmp_path / "1")
    model.refresh()
    assert_near(answer(model.find()), truth(1))
    # A folder that was made anew counts, though its number was there before.
    export(tmp_path, 1, seed=5)
    model.refresh()
    assert_near(answer(model.find()), truth(5))


def test_a_pinned_version_answers_until_it_is_released(tmp_path):
    for number in (1, 2):
        export(tmp_path, number, seed=number)
    model = served(tmp_path, version=1, name="ranking")
    assert (model.name, model.find().name, model.find().version) == ("ranking", "ranking", 1)
    export(tmp_path, 3, seed=3)
    model.refresh()
    assert model.find().version == 1
    assert model.load().version == 3
    assert model.load(2).version == 2
    model.refresh()
    assert_near(answer(model.find()), truth(2))
    with pytest.raises(NotServedError, match="there is no version 7 in .*; there are 3, 2, 1"):
        model.load(7)
    assert model.find().version == 2
    with pytest.raises(FileNotFoundError, match="there is no version 7"):
        served(tmp_path, version=7)


def test_an_unloaded_model_answers_again_after_a_load(tmp_path):
    export(tmp_path, 1, seed=1)
    model = served(tmp_path)
    models = Models([model])
    model.unload()
    export(tmp_path, 2, seed=2)
    model.refresh()
    with pytest.raises(NotServedError, match="'movie_ranking' is unloaded; POST /v2/repository/models/"):
        models.find("movie_ranking")
    assert [(one["version"], one["state"]) for one in models.index()] == [("2", "UNAVAILABLE"), ("1", "UNAVAILABLE")]
    assert models.index(only_ready=True) == []
    model.load()
    assert models.find("movie_ranking").version == 2
    assert [one["state"] for one in models.index()] == ["READY", "UNAVAILABLE"]


def test_a_damaged_version_does_not_keep_the_one_before_in_memory(tmp_path):
    export(tmp_path, 1, seed=1)
    model = served(tmp_path)
    (export(tmp_path, 2, seed=2) / "dense.onnx").write_bytes(b"not what it was")
    model.refresh()
    is_there = weakref.ref(model.find())
    export(tmp_path, 3, seed=3)
    with short_pauses():
        model.refresh()
        assert (model.find().version, is_there()) == (3, None)


def test_a_damaged_version_is_passed_over_until_it_is_whole(tmp_path, caplog):
    export(tmp_path, 1, seed=1)
    model = served(tmp_path)
    path = export(tmp_path, 2, seed=2)
    graph = (path / "dense.onnx").read_bytes()
    (path / "dense.onnx").write_bytes(b"not what it was")
    for _ in range(3):
        model.refresh()
    assert (model.find().version, model.num_damaged) == (1, 1)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and "version 1 is served in place of a newer one" in warnings[0]
    assert "dense.onnx is damaged" in model.index()[0]["reason"]
    with pytest.raises(CorruptFileError):
        model.load(2)
    assert model.find().version == 1
    shutil.rmtree(path)
    export(tmp_path, 2, seed=2)
    assert (tmp_path / "2" / "dense.onnx").read_bytes() == graph
    model.refresh()
    assert (model.find().version, model.num_damaged) == (2, 0)


def test_two_models_of_one_name_are_refused(tmp_path):
    for name in ("a", "b"):
        export(tmp_path / name)
    with pytest.raises(ValueError, match="two models are called 'movie_ranking'.*--model NAME=BASE"):
        Models([served(tmp_path / "a"), served(tmp_path / "b")])
    models = Models([served(tmp_path / "a"), served(tmp_path / "b", name="other")])
    with pytest.raises(NotServedError, match="no model 'c'; this server has 'movie_ranking', 'other'"):
        models.find("c")


class Training:
    """A trainer that a served model follows."""

    def __init__(self, base, cleanup, generation=1):
        self.base = base
        self.model, self.plan, self.tables = trained(1)
        self.export(1)
        self.while_loading = lambda: None
        self.served = served(base, prepare=lambda model, path: self.while_loading())
        secret = SharedSecret.of_folder(base)
        follower = cleanup.enter_context(Follower(self.served.current, "127.0.0.1:0", secret=secret))
        self.served.follow(follower)
        self.sender = cleanup.enter_context(
            DeltaSender(
                self.tables,
                plan_hash=self.plan.hash,
                generation=generation,
                targets=[follower.address],
                settings=DeltaSettings(secret=secret),
                dense_weights=lambda: (self.step, {key: one.clone() for key, one in self.model.state_dict().items()}),
            )
        )
        self.step = 0

    def export(self, version, sequence=0, **description):
        parts = {"model": self.model, "plan": self.plan, "tables": self.tables, "sequence": sequence}
        export(self.base, version, **parts, **description)

    def train(self):
        self.step += 1
        generator = torch.Generator().manual_seed(100 + self.step)  # not the rows that are there
        randomize(self.model, generator)
        ids = torch.arange(200)
        for table in self.tables.tables.values():
            table.assign(ids, torch.randn(200, table.dim, generator=generator))

    def truth(self):
        return eager(self.model, self.plan, self.tables, COLUMNS)


def test_a_version_whose_content_deltas_have_brought_is_not_loaded_again(tmp_path):
    with ExitStack() as cleanup:
        job = Training(tmp_path, cleanup)
        job.train()
        assert not job.sender.push_once().failures
        before = job.served.find()
        job.export(2, job.sender.sequence)
        job.train()
        assert not job.sender.push_once().failures
        job.while_loading = lambda: pytest.fail("it is loaded")
        job.served.refresh()
        assert job.served.find().version == 2
        # Loaded from its files it would be older than what was answered before.
        assert job.served.find().tables is before.tables
        assert_near(answer(job.served.find()), job.truth())


def test_versions_of_a_trainer_that_was_started_again_get_their_numbers(tmp_path):
    """Its deltas have brought all that they hold, to tables that were loaded from a version of its earlier life."""
    with ExitStack() as cleanup:
        job = Training(tmp_path, cleanup, generation=2)
        for version in (2, 3):
            job.train()
            assert not job.sender.push_once().failures
            job.export(version, job.sender.sequence, generation=2)
            job.served.refresh()
            assert job.served.find().version == version
            assert job.served.find(str(version)) is job.served.current
            assert_near(answer(job.served.find()), job.truth())


def test_a_version_that_is_ahead_of_the_deltas_is_loaded_and_followed(tmp_path):
    with ExitStack() as cleanup:
        job = Training(tmp_path, cleanup)
        job.train()
        job.export(2, 10)
        job.served.refresh()
        assert_near(answer(job.served.find()), job.truth())
        job.train()
        # The trainer is asked for everything, for what is served now is not what it built on.
        assert not job.sender.push_once().failures
        assert_near(answer(job.served.find()), job.truth())


def test_memory_is_given_back_once_the_version_before_is_gone_and_no_delta_waits_for_it(tmp_path, monkeypatch):
    with ExitStack() as cleanup:
        job = Training(tmp_path, cleanup)
        before, seen = weakref.ref(job.served.current), []

        def release():
            seen.append((before(), job.sender.push_once().failures))

        monkeypatch.setattr(served_model, "release_free_memory", release)
        job.train()
        job.export(2, 10)
        with short_pauses():
            job.served.refresh()
            job.served.refresh()  # nothing went
        assert seen == [(None, {})]
        assert_near(answer(job.served.find()), job.truth())


def test_deltas_that_come_while_a_version_is_being_loaded_stay(tmp_path):
    """Their sender may have ended, and would not send them again."""
    with ExitStack() as cleanup:
        job = Training(tmp_path, cleanup)
        assert not job.sender.push_once().failures
        sequence = job.sender.begin_export()
        job.export(2, sequence)

        def train_a_last_time():
            job.train()
            assert not job.sender.push_once().failures

        job.while_loading = train_a_last_time
        job.served.refresh()
        assert job.served.find().version == 2
        assert_near(answer(job.served.find()), job.truth())


def test_a_version_of_an_earlier_life_does_not_replace_what_came_while_it_was_being_loaded(tmp_path):
    with ExitStack() as cleanup:
        job = Training(tmp_path, cleanup, generation=2)
        job.export(2, 10)

        def replace_the_trainer():
            job.train()
            assert not job.sender.push_once().failures

        job.while_loading = replace_the_trainer
        job.served.refresh()
        assert_near(answer(job.served.find()), job.truth())


def test_a_pinned_version_takes_no_deltas_and_a_released_one_catches_up(tmp_path):
    with ExitStack() as cleanup:
        job = Training(tmp_path, cleanup)
        first = job.truth()
        job.train()
        assert not job.sender.push_once().failures
        job.served.load(1)
        assert_near(answer(job.served.find()), first)
        job.train()
        (failure,) = job.sender.push_once().failures.values()
        assert isinstance(failure, RemoteError) and "version 1 of model 'movie_ranking' is pinned here" in str(failure)
        assert_near(answer(job.served.find()), first)
        job.served.load()
        assert not job.sender.push_once().failures
        assert_near(answer(job.served.find()), job.truth())


def with_warm_up(path, content):
    (path / WARM_UP_FILE).write_bytes(content)
    found = FileCheck.of(path / WARM_UP_FILE)
    check = {"bytes": found.num_bytes, "crc32c": found.crc32c}
    rewrite(path, lambda fields: fields["files"].update({WARM_UP_FILE: check}))


def test_recorded_requests_are_answered_before_a_version_answers(tmp_path, monkeypatch):
    requests = [{"inputs": {name: values.tolist() for name, values in request(count).items()}} for count in (3, 7)]
    export(tmp_path, 1, warm_up=requests)
    sizes = []

    def prepare(model, path):
        plain = model.predict_together
        monkeypatch.setattr(
            model, "predict_together", lambda asked: sizes.append(asked[0].num_examples) or plain(asked)
        )
        warm_up(model, path)

    served(tmp_path, prepare=prepare)
    assert sizes == [3, 7, 1, 1, 100, 100, 1000, 1000]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"instances": 3}', b'{"inputs": {"uid": [1]}}'])
def test_a_version_whose_recorded_requests_are_wrong_does_not_answer(tmp_path, content):
    export(tmp_path, 1, seed=1)
    model = served(tmp_path, prepare=warm_up)
    with_warm_up(export(tmp_path, 2, seed=2), content)
    model.refresh()
    assert model.find().version == 1
    with pytest.raises(CorruptFileError, match=r"warmup.jsonl has no requests that the model takes"):
        model.load(2)
