"""What a checked chain of deltas does to tables and admission filters."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from monolith.checkpoint.format.delta_chain import read_erased
from monolith.checkpoint.format.layout import FILTER_CHANGES_SUFFIX, FILTERS_NAME, TABLES_NAME
from monolith.embedding import Table
from monolith.embedding.admission import AdmissionFilter
from monolith.embedding.shard_files import NotFinite


def apply_delta(folder: Path, tables: Mapping[str, Table], *, not_finite: NotFinite = NotFinite.REFUSE) -> None:
    """Change tables as a checked delta says: rows of erased ids go, changed rows come.

    With `NotFinite.DROP`, an id whose changed row is not finite has no row then, as if it had been erased.
    """
    erased = read_erased(folder)
    for name, table in tables.items():
        if name in erased:
            table.erase(erased[name])
        table.restore(folder / TABLES_NAME / name, clear=False, not_finite=not_finite)


def restore_filter(links: Sequence[Path], name: str, admission: AdmissionFilter) -> None:
    """Make an admission filter what it was at the end of a checked chain; a delta has the whole of it, or changes."""
    changes: list[Path] = []
    for link in reversed(links):
        path = link / FILTERS_NAME / f"{name}{FILTER_CHANGES_SUFFIX}"
        if link == links[0] or not path.is_file():
            admission.restore(link / FILTERS_NAME / name, changes[::-1])
            return
        changes.append(path)
