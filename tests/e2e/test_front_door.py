"""The road of a newcomer: a fresh environment, the wheel, and the tutorials as typed, from data to a live server."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import FRONT_DOOR, ROOT, name_of
from tests.docs.run_page import run_page
from tests.patience import PATIENCE_SECONDS

SOURCES = {".py", ".h", ".cpp"}


def fresh_wheel() -> Path:
    """Return the wheel in dist/; an older one than the sources would say nothing about them."""
    sources = [path for part in ("monolith", "csrc") for path in (ROOT / part).rglob("*") if path.suffix in SOURCES]
    newest = max(path.stat().st_mtime for path in [*sources, ROOT / "pyproject.toml"])
    found = [path for path in (ROOT / "dist").glob("*.whl") if path.stat().st_mtime > newest]
    assert found, f"{ROOT / 'dist'} has no wheel of these sources; run `make wheel`"
    return found[-1]


def installed(wheel: Path, folder: Path) -> Path:
    """Return the programs of a new environment that has the wheel, as the tutorials ask for it."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=PATIENCE_SECONDS)
    install = [folder / "bin" / "python", "-m", "pip", "install", "-qq", "--no-compile", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{wheel}[serving,columnar,kafka]"], check=True, timeout=PATIENCE_SECONDS)
    return folder / "bin"


@pytest.mark.services
@pytest.mark.skipif(shutil.which("curl") is None, reason="the tutorials ask with curl, which is not installed")
def test_from_a_data_set_to_a_live_server(tmp_path, monkeypatch):
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    programs, folder = installed(fresh_wheel(), tmp_path / "environment"), tmp_path / "here"
    folder.mkdir()
    place = [programs / "python", "-c", "import monolith; print(monolith.__file__)"]
    used = subprocess.run(
        place, cwd=folder, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    ).stdout
    assert Path(used.strip()).is_relative_to(tmp_path)  # not this checkout
    ran: dict[str, str] = {}
    with contextlib.chdir(folder):
        for page in FRONT_DOOR:
            ran |= run_page(page.read_text(encoding="utf-8"), name_of(page), folder, programs)
    (predicted,) = [printed for command, printed in ran.items() if command.startswith("monolith predict")]
    (answered,) = [printed for command, printed in ran.items() if command.startswith("curl")]
    expected = [json.loads(line)["pred"] for line in predicted.splitlines() if line.startswith("{")]
    assert len(expected) == 2
    assert json.loads(answered)["predictions"] == pytest.approx(expected, abs=1e-6)
    # The live server answered without user 729's ratings, and then with them.
    assert json.loads(ran["bash ask.sh | tee before.json"]) != json.loads(ran["bash ask.sh"])
