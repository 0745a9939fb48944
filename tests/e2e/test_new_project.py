"""`monolith new` writes a project whose README leads from CSV files to an answer over HTTP."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from tests.e2e.typed_commands import blocks, run_typed

ROOT = Path(__file__).parents[2]


def new(folder):
    return CliRunner().invoke(app, ["new", str(folder)])


@pytest.mark.services
@pytest.mark.skipif(shutil.which("curl") is None, reason="the README asks with curl, which is not installed")
def test_the_commands_of_a_new_project_follow_each_other(tmp_path):
    assert f"cd {tmp_path / 'shop'}" in new(tmp_path / "shop").output
    readme = (tmp_path / "shop" / "README.md").read_text()
    commands = "\n".join(blocks(readme, "sh"))
    assert re.findall(r"^monolith (\w+)", commands, re.MULTILINE) == [
        "train", "evaluate", "row", "predict", "export", "serve",
    ]  # fmt: skip
    ran = run_typed(commands, tmp_path / "shop", tmp_path / "bin")
    assert ran.returncode == 0, ran.stderr
    predicted = [json.loads(line)["pred"] for line in ran.stdout.splitlines() if line.startswith('{"pred"')]
    answered = json.loads(ran.stdout.rpartition("\n{")[2].join(["{", ""]))["predictions"]
    assert len(predicted) == 3
    assert answered == pytest.approx(predicted, abs=1e-6)
    assert float(re.search(r"^auc +(\S+)", ran.stdout, re.MULTILINE)[1]) > 0.6  # on events it did not train on
    assert re.search(r"^'m3' \(id \S+\) in table movie of trained/model.ckpt-", ran.stdout, re.MULTILINE)


def test_a_folder_with_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    done = new(tmp_path)
    assert isinstance(done.exception, FileExistsError)
    assert f"{tmp_path} exists and is no empty folder; name another one" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_pages_do_not_share_a_folder():
    """What one page trained must not be what another one continues from."""
    found = {}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        found[page.name] = set(re.findall(r"(?:--model-dir[ =]|model_dir=\")(\w+)", text))
    names = [name for folders in found.values() for name in folders]
    assert len(names) == len({*names}), found
