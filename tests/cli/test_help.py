"""`--help`, `--version` and completion: at once, in full, in one spelling."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.train.config import RunnerConfig, flag_kinds, flag_name
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = [
    [],
    *([name] for name in ("new", "train", "launch", "evaluate", "predict", "export", "serve")),
    *([name] for name in ("row", "control", "status", "scale", "demo", "info", "forget", "export-vectors")),
    ["agent"],
    *(["agent", name] for name in ("run", "declare", "publish", "unpublish", "info")),
    ["ckpt"],
    *(["ckpt", name] for name in ("ls", "show", "verify", "diff", "reshard", "compact", "rollback", "rm")),
    *(["ckpt", name] for name in ("export-parquet", "import-torch")),
    ["certs"],
    ["certs", "new"],
    ["data-service"],
    *(["data-service", name] for name in ("dispatcher", "worker", "status")),
]
PAGES = [["--version"], ["train", "--help-all"], *[[*one, flag] for one in COMMANDS for flag in ("-h", "--help")]]
HEAVY = ("torch", "pyarrow", "numpy", "fastapi", "onnxruntime")
PROBE = f"""
import sys
from monolith.cli.run import main
for arguments in {PAGES!r}:
    sys.argv = ["monolith", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 0, arguments
    loaded = set({HEAVY!r}) & set(sys.modules)
    assert not loaded, (arguments, loaded)
"""


def shown(*arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_no_help_page_loads_torch_or_pyarrow():
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: ") == 2 * len(COMMANDS) + 1


def test_every_command_has_its_page_in_the_list():
    """The list above is complete: a command that is missing there is not protected."""
    listed = {one[0] for one in COMMANDS if one}
    assert listed == {line.split()[0] for line in shown("--help").partition("Commands:\n")[2].splitlines()}


@pytest.mark.parametrize("arguments", [("--version",), ("train", "--help")], ids=" ".join)
def test_help_and_version_answer_at_once(arguments):
    """Modules are counted, not seconds: what takes time is loading them, and a busy machine has a clock of its own."""
    command = [sys.executable, "-X", "importtime", "-m", "monolith", *arguments]
    loaded = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    ).stderr
    assert 50 < loaded.count("import time:") < 500


def flags_on(page):
    return re.findall(r"^  --(?:\[no-\])?([a-z0-9-]+)", page, re.MULTILINE)


def test_train_shows_some_settings_in_groups_and_all_of_them_when_asked():
    page, everything = shown("train", "--help"), shown("train", "--help-all")
    assert 20 <= len(flags_on(page)) <= 30
    for title in ("Model and data:", "Saving and restoring:", "Live training:", "Watching:", "Computing:"):
        assert f"\n{title}\n" in page
    assert not {flag_name(name)[2:] for name in flag_kinds(RunnerConfig)} - set(flags_on(everything))
    assert len(flags_on(everything)) == len(set(flags_on(everything)))


@pytest.mark.parametrize("width", ["60", "200"])
def test_no_description_is_cut(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    pages = [shown(*one, "--help") for one in COMMANDS]
    assert not [line for page in pages for line in page.splitlines() if re.search(r"[a-z]\.\.\.$", line)]
    assert "Steps between two snapshots." in " ".join(shown("train", "--help").split())


def test_one_spelling_is_shown_and_both_are_taken(tmp_path):
    for one in COMMANDS:
        assert not re.findall(r"--[a-z]+_[a-z_]+", shown(*one, "--help")), one
    for spelling in ("--ready-file", "--ready_file"):
        done = CliRunner().invoke(app, ["serve", str(tmp_path / "nowhere"), spelling, str(tmp_path / "ready")])
        assert "nowhere" in str(done.exception)
    for spelling in ("--model-dir", "--model_dir"):
        done = CliRunner().invoke(app, ["train", "no_such_module:Model", spelling, "model"])
        assert "no_such_module" in str(done.exception)


def completed(line):
    words = line.split(" ")
    environment = {**os.environ, "_MONOLITH_COMPLETE": "complete_bash", "COMP_WORDS": line}
    done = subprocess.run(
        [sys.executable, "-m", "monolith"],
        cwd=ROOT,
        env={**environment, "COMP_CWORD": str(len(words) - 1)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    return done.stdout.split()


def test_a_shell_completes_commands_and_flags():
    assert completed("monolith eva") == ["evaluate"]
    assert "--model-dir" in completed("monolith train ranking:Ranking --mod")
    assert completed("monolith train ranking:Ranking --max-ste") == ["--max-steps"]
    assert completed("monolith serve exports --sync-a") == ["--sync-address"]


def test_pages_for_users_show_one_spelling():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    wrong = {
        f"{page.name}: {flag}; write {flag.replace('_', '-')}"
        for page in pages
        for flag in re.findall(r"(?<![\w-])--[a-z]+_[a-z_]+", page.read_text(encoding="utf-8"))
    }
    assert not wrong
