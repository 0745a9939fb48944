"""Every kept mutation can still be made, and the tests that must notice it are there."""

from pathlib import Path

import pytest

from tests.mutation.catalogue import Mutation, read_catalogue
from tests.mutation.named_tests import is_there

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = read_catalogue(ROOT / "tests" / "mutation")


@pytest.mark.parametrize("mutation", CATALOGUE, ids=str)
def test_the_text_of_a_mutation_occurs_once(mutation: Mutation):
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert mutation.apply(text) != text


@pytest.mark.parametrize("mutation", CATALOGUE, ids=str)
def test_the_tests_of_a_mutation_exist(mutation: Mutation):
    assert not [name for name in mutation.tests if not is_there(ROOT, name)]


def test_no_mutation_is_kept_twice():
    made = [(mutation.file, mutation.find, mutation.replace) for mutation in CATALOGUE]
    assert not {one for one in made if made.count(one) > 1}


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("tests/mutation/test_catalogue.py", True),
        ("tests/mutation/test_catalogue.py::test_no_mutation_is_kept_twice", True),
        ("tests/mutation/test_catalogue.py::test_a_name_is_looked_up_in_its_file[one-True]", True),
        ("tests/mutation/test_catalogue.py::test_that_was_renamed", False),
        ("tests/mutation/test_that_was_moved.py::test_no_mutation_is_kept_twice", False),
    ],
)
def test_a_name_is_looked_up_in_its_file(name, there):
    assert is_there(ROOT, name) is there


def test_text_that_occurs_twice_is_refused():
    mutation = Mutation(area="any", file="a.py", find="x", replace="y", tests=("tests/a.py",))
    with pytest.raises(ValueError, match="occurs 2 times in a.py"):
        mutation.apply("x = x")
