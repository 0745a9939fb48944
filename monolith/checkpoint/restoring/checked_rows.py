"""The rows that a chain leads to, all of their files checked before the first row changes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from monolith._core import native
from monolith.checkpoint.layout import TABLES_NAME
from monolith.checkpoint.restoring.delta_chain import read_erased
from monolith.embedding import Table
from monolith.embedding.admission import ALL_BUCKETS
from monolith.embedding.shard_files import check_shard_files, find_shard_files


class CheckedRows:
    """Rows for tables that are in use: what is wrong with a file is found before they lose what they have."""

    def __init__(self, links: Sequence[Path], tables: Mapping[str, Table]) -> None:
        """Read and check the files of the tables in all links of a chain.

        Raises:
            FileNotFoundError, CorruptFileError, ValueError: A file is missing, damaged, or of other tables.
        """
        self._tables = dict(tables)
        self._files = {name: [_checked_files(link, name, table) for link in links] for name, table in tables.items()}
        self._erased: list[dict[str, Tensor]] = [{}, *(read_erased(link) for link in links[1:])]

    def load(self, buckets: tuple[int, int] = ALL_BUCKETS) -> None:
        """Let the tables hold the rows of these buckets, and nothing else."""
        for name, table in self._tables.items():
            table.clear()
            for paths, erased in zip(self._files[name], self._erased, strict=True):
                if name in erased:
                    table.erase(erased[name])
                native.load_table(table.native, paths, *buckets)


def _checked_files(link: Path, name: str, table: Table) -> list[str]:
    paths = find_shard_files(os.fspath(link / TABLES_NAME / name))
    check_shard_files(table.native, table.schema(), paths, cleared=True)
    return paths
