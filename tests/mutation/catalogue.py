"""The kept mutations: one wrong line each, and the tests that must fail while it is there."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NATIVE_SUFFIXES = {".cpp", ".h"}


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One entry of a file `tests/mutation/AREA.toml`."""

    area: str
    """The name of the file that holds it."""

    file: str
    """What is changed, by its path below the repository."""

    find: str
    """The right text; it occurs once in the file."""

    replace: str
    """The wrong text."""

    tests: tuple[str, ...]
    """Names of tests as pytest takes them; at least one must fail."""

    def __post_init__(self) -> None:
        """Reject an entry that could show nothing."""
        if self.find == self.replace:
            raise ValueError(f"{self}: find and replace are equal")
        if not self.tests:
            raise ValueError(f"{self}: no tests are named")

    def __str__(self) -> str:
        """Where it is, and the first line of the text that it replaces."""
        return f"{self.area}: {self.file}: {self.find.strip().splitlines()[0]}"

    @property
    def is_native(self) -> bool:
        """Whether the native core has to be built with it."""
        return Path(self.file).suffix in NATIVE_SUFFIXES

    def apply(self, text: str) -> str:
        """Return the text of the file with the wrong line.

        Raises:
            ValueError: The right text is not there, or more than once.
        """
        if (count := text.count(self.find)) != 1:
            raise ValueError(f"{self}: the text to replace occurs {count} times in {self.file}, it must occur once")
        return text.replace(self.find, self.replace)


def read_catalogue(folder: Path, areas: Iterable[str] = ()) -> list[Mutation]:
    """Return the entries of these areas, of all by default, in the order of their files.

    Raises:
        ValueError: An area is not there, or an entry is not complete.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    chosen = list(areas) or list(files)
    if unknown := sorted(set(chosen) - set(files)):
        raise ValueError(f"no area {', '.join(unknown)} in {folder}; there are {', '.join(files) or 'none'}")
    return [mutation for area in chosen for mutation in _read_area(files[area])]


def _read_area(path: Path) -> list[Mutation]:
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("mutation", [])
    wanted = {"file", "find", "replace", "tests"}
    for number, entry in enumerate(entries, start=1):
        if set(entry) != wanted:
            raise ValueError(f"{path.name}, entry {number}: it must have {sorted(wanted)}, it has {sorted(entry)}")
    return [Mutation(area=path.stem, **{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
