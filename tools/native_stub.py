"""Write monolith/_core/native.pyi, the types of the compiled module; run it after a change to the bindings.

    python tools/native_stub.py

The module must be built in place. tests/test_native_stub.py fails while the stub is out of date.
"""

import re
import subprocess
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

from monolith._core import native

STUB = Path(__file__).resolve().parent.parent / "monolith" / "_core" / "native.pyi"

# Array arguments take NumPy arrays and torch tensors alike, without a copy.
ARRAY = re.compile(r"Annotated\[NDArray\[numpy\.(\w+)\], dict\([^()]*(?:\([^()]*\)[^()]*)*\)\]")
ALIASES = {
    "bool_": "_Bools",
    "float32": "_Floats",
    "float64": "_Doubles",
    "int32": "_Int32s",
    "int64": "_Int64s",
    "uint8": "_Bytes",
    "uint32": "_UInt32s",
    "uint64": "_UInt64s",
}

# What C++ gives back as a plain tuple, dict or object, by the qualified name of the function.
ROWS = "tuple[NDArray[numpy.int64], NDArray[numpy.uint32], NDArray[numpy.uint8]]"
TENSORS = "tuple[torch.Tensor, ...]"
RETURNS = {
    "Compressor.decode": "NDArray[numpy.float32]",
    "Compressor.encode": "NDArray[numpy.uint8]",
    "Compressor.retrieve": "NDArray[numpy.float32]",
    "FusedLayoutPlan.shard": TENSORS,
    "FrozenTable.save_changes": "tuple[SavedTable, NDArray[numpy.int64]]",
    "JsonValue.array": "NDArray[Any]",
    "JsonValue.columns": "list[NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]]",
    "JsonValue.lists": "tuple[NDArray[Any], NDArray[Any]]",
    "RecordParser.parse": (
        "tuple[int, int, torch.Tensor, torch.Tensor, list[tuple[torch.Tensor, torch.Tensor] | None], list[int],"
        " list[tuple[int, int, str]]]"
    ),
    "RowTable.read_rows": ROWS,
    "RowTable.read_snapshot": ROWS,
    "RowTable.sub_tables_of": "tuple[int, int]",
    "RowTable.take_changes": "tuple[NDArray[numpy.int64], NDArray[numpy.int64], bool]",
    "ShardedCall.exchange": "list[tuple[int, str, bytes]]",
    "ShardedCall.exchange_over": "list[tuple[int, str, bytes]]",
    "TextDictionary.take_new": "tuple[bytes, list[int]]",
    "TfExampleConverter.convert": "tuple[torch.Tensor, torch.Tensor, list[tuple[int, int, str]]]",
    "fused_reorder_by_indices": TENSORS,
    "group_by_index": TENSORS,
    "init_state": "NDArray[numpy.float32]",
    "initialize": "NDArray[numpy.float32]",
    "line_ends": "torch.Tensor",
    "ragged_group_by_index": TENSORS,
    "reorder_by_indices": TENSORS,
    "unique_keys_with_offsets": "tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int]",
}
VAGUE = re.compile(r"-> (tuple|dict|list|object)\b(?!\[)")


def name_return_types(text: str) -> str:
    """Replace the vague return types by those of RETURNS; raise LookupError where one is not known."""
    lines, scope = [], ""
    for line in text.splitlines():
        if opened := re.match(r"class (\w+)", line):
            scope = opened[1] + "."
        elif line and not line.startswith(" "):
            scope = ""
        if (function := re.match(r" *def (\w+)", line)) and VAGUE.search(line):
            name = scope + function[1]
            if name not in RETURNS:
                bare = VAGUE.findall(line)[0]
                raise LookupError(f"{name} returns a bare {bare}; say of what in RETURNS of {__file__}")
            line = VAGUE.sub(f"-> {RETURNS[name]}", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def name_arrays(text: str) -> str:
    """Replace array arguments by aliases that also take tensors, and define those aliases."""
    # Returned tensors say their dtype in the C++ headers.
    text = re.sub(r"Annotated\[torch\.Tensor, dict\([^()]*(?:\([^()]*\)[^()]*)*\)\]", "torch.Tensor", text)
    text = text.replace("import torch\n", "")
    # An argument of any dtype.
    text = re.sub(r"Annotated\[NDArray, dict\([^()]*\)\]", "NDArray[Any]", text)
    text = re.sub(rf"-> {ARRAY.pattern}", r"-> NDArray[numpy.\1]", text)
    used = sorted({match[1] for match in ARRAY.finditer(text)})
    text = ARRAY.sub(lambda match: ALIASES[match[1]], text)
    aliases = "".join(f"{ALIASES[dtype]}: TypeAlias = torch.Tensor | NDArray[numpy.{dtype}]\n" for dtype in used)
    text = re.sub(r"from typing import Annotated(, overload)?\n", r"from typing import Any, TypeAlias\1\n", text)
    return text.replace(
        "import numpy\nfrom numpy.typing import NDArray\n",
        f"import numpy\nimport torch\nfrom numpy.typing import NDArray\n\n{aliases}",
        1,
    )


def native_stub() -> str:
    """Return the stub of the compiled core, formatted."""
    generator = StubGen(native, quiet=True)
    generator.put(native)
    text = name_arrays(name_return_types(generator.get()))
    # The one function that C++ calls takes the next bytes of a reply.
    text = re.sub(r"(?<=: )Callable\b(?=[,)])", "Callable[[memoryview], None]", text)
    text = re.sub(r'"""\n *(\S.*)\n *"""', r'"""\1"""', text)  # short docstrings on one line
    for action in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        command = [sys.executable, "-m", "ruff", *action, "--line-length", "120", "--stdin-filename", STUB.name, "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    STUB.write_text(native_stub(), encoding="utf-8")
