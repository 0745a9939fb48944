"""Whether a test exists, found by reading its file: pytest would have to import everything."""

import ast
from functools import cache
from pathlib import Path


def is_there(root: Path, name: str) -> bool:
    """Return whether a folder or file has tests, or a file has the test of this name; parameters are not looked at."""
    place, *inner = name.split("[", 1)[0].split("::")
    path = root / place
    if not inner:
        return path.exists()
    return path.is_file() and "::".join(inner) in _names(path)


@cache
def _names(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}::{method.name}" for method in methods}
    return frozenset(found)
