"""profile_it: a trace per call."""

import json
import tempfile

import pytest
import torch

from monolith.native_training.test_utils import profile_it
from monolith.observe.profiling import TRACE_SUFFIX


def multiply(size, *, fail=False):
    """Multiply."""
    result = torch.ones(size, size) @ torch.ones(size, size)
    if fail:
        raise RuntimeError("no")
    return result[0, 0].item()


def operations(path):
    return {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}


def test_a_call_is_as_before_and_leaves_a_trace(tmp_path):
    profiled = profile_it(log_dir=tmp_path)(multiply)
    assert (profiled(8), profiled.__name__, profiled.__doc__) == (8.0, "multiply", "Multiply.")
    (path,) = tmp_path.iterdir()
    assert path.name.endswith(TRACE_SUFFIX)
    assert {"aten::mm"} <= operations(path)


def test_a_call_that_fails_leaves_a_trace_too(tmp_path):
    with pytest.raises(RuntimeError, match="no"):
        profile_it(log_dir=tmp_path)(multiply)(8, fail=True)
    assert len(list(tmp_path.iterdir())) == 1


def test_without_a_folder_it_is_that_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert profile_it(multiply)(3) == 3.0
    assert len(list((tmp_path / "tests_profile").iterdir())) == 1
