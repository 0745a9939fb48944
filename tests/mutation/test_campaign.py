"""The campaign itself, on a tree of three files: it tells a noticed mutation from one that nothing notices."""

import json
import subprocess

import pytest

from tests.mutation.__main__ import main

CATALOGUE = """
[[mutation]]
file = "doubling.py"
find = "return 2 * number"
replace = "return 3 * number"
tests = ["tests/test_doubling.py::test_two"]

[[mutation]]
file = "doubling.py"
find = "number >= 100"
replace = "number > 1000"
tests = ["tests/test_doubling.py::test_two"]

[[mutation]]
file = "doubling.py"
find = "no such line"
replace = ""
tests = ["tests/test_doubling.py::test_two"]

[[mutation]]
file = "doubling.py"
find = "def double"
replace = "def twice"
tests = ["tests/test_doubling.py::test_wrong"]
"""

MODULE = """
def double(number):
    if number >= 100:
        raise ValueError(number)
    return 2 * number
"""

TESTS = """
from doubling import double

def test_two():
    assert double(2) == 4

def test_wrong():
    assert double(2) == 5
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tests/mutation").mkdir(parents=True)
    (tmp_path / "doubling.py").write_text(MODULE)
    (tmp_path / "tests/test_doubling.py").write_text(TESTS)
    (tmp_path / "tests/mutation/any.toml").write_text(CATALOGUE)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def test_a_campaign_tells_caught_survived_and_broken(tree, tmp_path, capsys):
    assert main(["--seed", "3", "--report", str(tmp_path / "report.json")], root=tree) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["mutations"] == 4
    assert report["caught"] == 1
    assert report["survived"] == ["any: doubling.py: number >= 100"]
    assert report["broken"] == ["any: doubling.py: def double", "any: doubling.py: no such line"]
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == report
    assert (tree / "doubling.py").read_text() == MODULE, "the tree itself was changed"


def test_an_area_that_is_not_there_is_named(tree):
    with pytest.raises(ValueError, match="no area other.*there are any"):
        main(["--only", "other"], root=tree)
