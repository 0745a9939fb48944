"""Runs the commands of a page as a user types them, in a shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS

END_WITH_THE_SERVER = "trap 'kill $(jobs -p)' EXIT\n"


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_typed(commands: str, folder: Path, bin_folder: Path) -> subprocess.CompletedProcess[str]:
    """Run commands in a folder, on a free port; `monolith` is this checkout's. Servers end with them."""
    command = bin_folder / "monolith"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m monolith "$@"\n')
    command.chmod(0o755)
    return subprocess.run(
        ["bash", "-e", "-c", END_WITH_THE_SERVER + commands.replace("8500", str(free_port()))],
        cwd=folder,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
