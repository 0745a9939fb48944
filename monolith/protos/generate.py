"""Write the ``*_pb2.py`` and ``*_pb2.pyi`` files anew: ``python -m monolith.protos.generate``.

Needs ``grpcio-tools``, which is part of the ``dev`` extra; nothing else in monolith imports this module.
"""

import sys
from pathlib import Path

import grpc_tools  # type: ignore[import-untyped]
from grpc_tools import protoc

PROTO_DIR = Path(__file__).resolve().parent
SOURCE_ROOT = PROTO_DIR.parent.parent
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
"""Messages of protobuf itself, such as Int64Value."""

# Linters and formatters leave the generated files alone: they must stay exactly what the generator writes.
HEADER = "# ruff: noqa\n# fmt: off\n# mypy: ignore-errors\n"


def generate(out_root: Path = SOURCE_ROOT) -> list[Path]:
    """Write the generated modules under ``out_root`` and return their paths, relative to it.

    Raises:
        RuntimeError: the protocol compiler rejected a ``.proto`` file; its messages are on stderr.
    """
    sources = [path.relative_to(SOURCE_ROOT) for path in sorted(PROTO_DIR.glob("*.proto"))]
    arguments = ["protoc", f"-I{SOURCE_ROOT}", f"-I{WELL_KNOWN}", f"--python_out={out_root}", f"--pyi_out={out_root}"]
    status = protoc.main(arguments + [str(source) for source in sources])
    if status != 0:
        raise RuntimeError(f"protoc failed with status {status} in {PROTO_DIR}; its messages are on stderr")
    written = [source.with_name(source.stem + suffix) for source in sources for suffix in ("_pb2.py", "_pb2.pyi")]
    for path in written:
        file = out_root / path
        file.write_text(HEADER + file.read_text(encoding="utf-8"), encoding="utf-8")
    return written


if __name__ == "__main__":
    for generated in generate():
        sys.stdout.write(f"{generated}\n")
