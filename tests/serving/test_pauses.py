"""A server's pauses: nothing of what it loaded is looked at again, and no thread keeps the interpreter for long."""

import gc
import sys

import pytest

from monolith.serving.pauses import SWITCH_SECONDS, short_pauses
from monolith.serving.server import Ready, ServerConfig, serve
from tests.export.movie import export


def test_the_collector_leaves_out_what_is_loaded_and_everything_is_as_before_afterwards():
    before = sys.getswitchinterval(), gc.get_freeze_count()
    num_objects = len(gc.get_objects())
    with short_pauses():
        # Under this test alone PyTorch and pytest have hundreds of thousands.
        assert gc.get_freeze_count() > 0.5 * num_objects > 10_000
        assert len(gc.get_objects()) < 0.1 * num_objects
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert (sys.getswitchinterval(), gc.get_freeze_count()) == before


def test_a_server_that_is_about_to_answer_has_short_pauses(tmp_path):
    export(tmp_path, 1)
    found = []

    def look(_: Ready) -> None:
        found.append((gc.get_freeze_count() > 10_000, sys.getswitchinterval()))
        raise RuntimeError("enough")

    with pytest.raises((RuntimeError, SystemExit)):
        serve(ServerConfig(export_base=tmp_path, port=0), announce=look)
    assert found == [(True, pytest.approx(SWITCH_SECONDS))]
