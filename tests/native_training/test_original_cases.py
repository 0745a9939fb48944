"""Every test case of the specifications in original_cases.toml has a test that exists, or a reason."""

import tomllib
from pathlib import Path

import pytest

from tests.mutation.named_tests import is_there

ROOT = Path(__file__).resolve().parents[2]
CASES = tomllib.loads((Path(__file__).parent / "original_cases.toml").read_text(encoding="utf-8"))
NONE = CASES.pop("none")


@pytest.mark.parametrize(("spec", "case"), [(spec, case) for spec, cases in CASES.items() for case in cases])
def test_a_case_has_tests(spec, case):
    named = CASES[spec][case]
    assert named and not [name for name in named if "::" not in name or not is_there(ROOT, name)]


def test_a_case_without_a_test_has_a_reason():
    assert all(len(reason) > 20 for reason in NONE.values())
    assert {case.partition(":")[0] for case in NONE} <= set(CASES)
    assert not is_there(ROOT, "tests/native_training/test_original_cases.py::test_of_another_name")
