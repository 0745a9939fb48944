"""docs/api has every public name, as the source has it."""

from pathlib import Path

import pytest

from tools.docstring_page import markdown
from tools.write_api import FOLDER, PAGES, api_pages

WAY_OUT = "run `make pages` and commit docs/api"
PACKAGE = Path(__file__).resolve().parents[2] / "monolith"
# Their names are for the package itself, or are those of another page.
NOT_FOR_USERS = {"monolith.native_training", "monolith.cli", "monolith.protos"}


def test_the_pages_are_up_to_date():
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    made = api_pages()
    assert set(written) == set(made), WAY_OUT
    changed = [name for name, text in made.items() if written[name] != text]
    assert not changed, f"{changed} differ from the docstrings; {WAY_OUT}"


def test_every_package_that_offers_names_has_a_page():
    offering = {
        f"monolith.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py") if "__all__" in path.read_text()
    }
    assert offering - NOT_FOR_USERS <= {package for packages in PAGES.values() for package in packages}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("monolith.md", "dim: int,\n    *,\n    optimizer: Optimizer = DEFAULT_OPTIMIZER,"),  # of a base class
        ("monolith.md", "label: Heads | None,\n    pred: Heads,"),  # of a named tuple
        ("embedding.md", "- `num_rows: int` — Ids that have a row."),  # a property
        ("embedding.md", "class SgdOptimizer(learning_rate: float"),  # a dataclass
        ("data.md", "MOVIE_SCHEMA = "),  # a constant
        ("train.md", "See [Estimator](monolith.md#estimator)."),  # described elsewhere
    ],
)
def test_a_page_shows(page, text):
    assert text in (FOLDER / page).read_text(encoding="utf-8")


def test_sections_of_a_docstring_become_lists_and_examples_become_code():
    doc = "Promise.\n\nArgs:\n    ids: int64,\n        any shape.\n    out: float32.\n\n>>> 1 + 1\n2"
    shown = "Promise.\n\n**Args**\n\n- `ids`: int64, any shape.\n- `out`: float32.\n\n```pycon\n>>> 1 + 1\n2\n```"
    assert markdown(doc) == shown
