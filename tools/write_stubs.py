"""Writes the `.pyi` files of the original import paths, for editors and mypy.

They follow from monolith/native_training/homes.py, so they are written by `make setup` and not kept in git.
"""

from pathlib import Path

from monolith.native_training.finder import reason_of_absence
from monolith.native_training.homes import EVERYTHING, HOMES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "monolith"


def original_stub(path: str) -> str:
    """Return the stub of one original import path: a re-export of each name that is there."""
    lines = [f'"""The original path {path}."""', ""]
    for name, home in HOMES[path].items():
        module, _, attribute = home.partition(":")
        if name == EVERYTHING:
            lines.append(f"from {module}.{attribute} import *")
        elif not reason_of_absence(f"{path}:{name}"):
            lines.append(f"from {module} import {attribute} as {name}")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file, and its folders, unless it already says the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> None:
    """Write all stubs into the source tree; remove those of paths that have a file, which they would hide."""
    written = set()
    for path in HOMES:
        file = ROOT.joinpath(*path.split(".")).with_suffix(".pyi")
        if file.with_suffix(".py").exists():
            continue
        write(file, original_stub(path))
        written.add(file)
        for folder in file.parents:
            if folder in (PACKAGE, PACKAGE / "native_training"):
                break
            if not (folder / "__init__.py").exists():
                write(folder / "__init__.pyi", "")
                written.add(folder / "__init__.pyi")
    for stub in [*PACKAGE.glob("*.pyi"), *(PACKAGE / "native_training").rglob("*.pyi")]:
        if stub not in written:
            stub.unlink()


if __name__ == "__main__":
    main()
