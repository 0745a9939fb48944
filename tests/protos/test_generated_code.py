"""The committed code is what the generator writes, and importing the messages needs no generator."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION_LINE = "# Protobuf Python Version:"


def version_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(VERSION_LINE)), "")


def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="needs grpcio-tools, part of the dev extra")
    command = (
        "import sys; from pathlib import Path; from monolith.protos.generate import generate; "
        "print(*generate(Path(sys.argv[1])), sep='\\n')"
    )
    out = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    written = out.split()
    assert len(written) == 2 * len(list((ROOT / "monolith/protos").glob("*.proto")))
    fresh = {path: (tmp_path / path).read_text() for path in written}
    committed = {path: (ROOT / path).read_text() for path in written}
    if {version_line(text) for text in fresh.values()} != {version_line(text) for text in committed.values()}:
        pytest.skip("this grpcio-tools writes code of another version; install the one in constraints.txt to compare")
    stale = [path for path in written if fresh[path] != committed[path]]
    assert not stale, f"run `python -m monolith.protos.generate`: {stale} differ from their .proto file"


def test_messages_need_no_generator() -> None:
    imports = "import sys, monolith.protos.embedding_hash_table_pb2"
    probe = f"{imports}; assert not {{'grpc', 'grpc_tools'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", probe], cwd=ROOT, check=True)
