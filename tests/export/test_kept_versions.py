"""Which versions stay, and the text file of the original that lists them with their steps."""

import pytest
from google.protobuf import text_format

import monolith as mono
from monolith.checkpoint.format.state_files import add_exempt_paths
from monolith.export.description import Description
from monolith.export.kept.retention import keep_newest
from monolith.export.versions import complete_versions, newest_export
from monolith.protos.export_state_pb2 import ServingModelState
from tests.export.crafted import rewrite
from tests.export.movie import export
from tests.export.two_heads import TwoHeads

STATE = "ExportSaverListenerState"


def listed(folder):
    state = text_format.Parse((folder / STATE).read_text(), ServingModelState())
    return {entry.export_dir: entry.global_step for entry in state.entries}


def test_each_export_is_listed_with_its_step(tmp_path):
    first, second = (export(tmp_path, version, global_step=10 * version) for version in (1, 2))
    assert listed(tmp_path) == {str(first): 10, str(second): 20}
    assert (tmp_path / STATE).read_text().startswith("entries {\n  export_dir: ")


def test_each_part_of_a_distributed_version_has_its_list(tmp_path):
    export(tmp_path, 3, global_step=7, num_shards=2)
    for part in ("entry", "ps_0", "ps_1"):
        assert listed(tmp_path / part) == {str(tmp_path / part / "3"): 7}


def test_what_is_removed_leaves_the_list(tmp_path):
    for version in (1, 2, 3):
        export(tmp_path, version, global_step=version)
    keep_newest(tmp_path, 2)
    assert list(listed(tmp_path).values()) == [2, 3]


def test_versions_of_exempt_steps_stay_and_do_not_count(tmp_path):
    for version in (1, 2, 3, 4):
        export(tmp_path, version, global_step=10 * version)
    keep_newest(tmp_path, 1, keep_steps={20})
    assert complete_versions(tmp_path) == [2, 4]
    assert list(listed(tmp_path).values()) == [20, 40]


def test_an_export_from_before_steps_were_written_has_none(tmp_path):
    path = export(tmp_path, 1, global_step=10)
    rewrite(path, lambda fields: fields.pop("global_step"))
    assert Description.read(path).global_step == 0
    keep_newest(tmp_path, 1)
    assert listed(tmp_path) == {str(path): 0}


def test_a_list_that_cannot_be_written_does_not_lose_the_version(tmp_path, caplog):
    (tmp_path / STATE).mkdir()
    path = export(tmp_path, 1)
    assert newest_export(tmp_path) == path
    assert f"{STATE} in {tmp_path} is not up to date" in caplog.text


@pytest.mark.services
@pytest.mark.parametrize("mode", ["standalone", "distributed"])
def test_a_live_run_keeps_versions_of_exempt_snapshots(tmp_path, mode):
    settings = {"export_base": str(tmp_path / "versions"), "export_mode": mode, "exports_max_to_keep": 1}

    def train(steps):
        config = mono.RunConfig(model_dir=tmp_path / "model", log_step_count_steps=0, **settings)
        mono.Estimator(TwoHeads, config).train(steps=steps)

    train(1)  # each run writes a version when it starts
    add_exempt_paths(tmp_path / "model", ["model.ckpt-1"])
    train(1)
    train(1)
    newest = newest_export(tmp_path / "versions")
    assert list(listed(newest.parent).values()) == [1, 2]
    assert [Description.read(newest.with_name(version)).global_step for version in ("2", "3")] == [1, 2]
