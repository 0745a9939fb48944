"""The power goes at any moment while versions are exported: what has a version's name is whole, and none is lost."""

import random
import shutil

import numpy as np
import pytest

from monolith.export import load_export, remove_unfinished
from monolith.export.description import Description
from monolith.export.kept.retention import remove_unnamed_parts
from monolith.export.versions import complete_versions, version_paths
from tests.checkpoint.power_loss.recording import record
from tests.export.movie import eager, request, trained
from tests.export.recorded_exports import NUM_VERSIONS


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return record("tests.export.recorded_exports", tmp_path_factory.mktemp("power_loss"))


def check_crash(recorded, count, folder):
    """Every version that is there is whole, and so is every one whose writer had returned."""
    bases = [folder / "work" / "versions", folder / "work" / "distributed"]
    found = {}
    for base in bases:
        remove_unfinished(base)
        remove_unnamed_parts(base)
        # A folder without model.json would not count as a version; none is ever left.
        for versions in (base, base / "entry", base / "ps_0", base / "ps_1"):
            names = [path.name for path in versions.iterdir() if path.is_dir()] if versions.is_dir() else []
            assert {int(name) for name in names if name.isdecimal()} <= set(complete_versions(base))
        for path in version_paths(base) if complete_versions(base) else ():
            description = Description.read(path)
            assert description.version == int(path.name)
            description.check_files(path)
            for shard in range(len(description.shards)):
                description.check_shard(path, shard)
            found[description.version] = base
    assert set(recorded.told(count)) <= found.keys()
    assert {version: bases[version % 2] for version in found} == found
    return len(found)


def test_without_power_loss_every_version_answers(recorded, tmp_path):
    count, columns = len(recorded.operations), request(10)
    assert recorded.told(count) == list(range(1, NUM_VERSIONS + 1))
    recorded.crash_after(count, random.Random(0), tmp_path)
    for version in range(1, NUM_VERSIONS + 1):
        base = tmp_path / "work" / ("distributed/entry" if version % 2 else "versions")
        predictions = load_export(base / str(version)).predict(columns)["pred"]
        np.testing.assert_allclose(predictions, eager(*trained(version), columns), rtol=0, atol=1e-6)


def test_whenever_the_power_goes_versions_are_whole_and_none_is_lost(recorded, tmp_path):
    operations = recorded.operations
    # Every moment, and those around the appearance of a version more often.
    renames = [number for number, one in enumerate(operations) if one.kind == "rename" and one.path.endswith(".tmp")]
    moments = [*range(len(operations) + 1), *[number + after for number in renames for after in range(5)] * 3]
    found = set()
    for number, count in enumerate(moments):
        folder = tmp_path / str(number)
        (folder / "work").mkdir(parents=True)
        recorded.crash_after(count, random.Random(number), folder)
        try:
            found.add(check_crash(recorded, count, folder))
        except Exception as error:
            error.add_note(f"after {count} operations, the last {operations[max(0, count - 3) : count]}")
            raise
        shutil.rmtree(folder)
    assert found == set(range(NUM_VERSIONS + 1))
