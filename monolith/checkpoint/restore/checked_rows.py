"""The rows that a chain leads to, all of their files checked before the first row changes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from monolith.checkpoint.format.delta_chain import read_erased
from monolith.checkpoint.format.layout import TABLES_NAME
from monolith.embedding import Table
from monolith.embedding.hash_shards import WHOLE, HashShard
from monolith.embedding.shard_files import check_shard_files, find_shard_files, load_shard_files, not_finite_rows


class CheckedRows:
    """Rows for tables that are in use: what is wrong with a file is found before they lose what they have."""

    def __init__(
        self,
        links: Sequence[Path],
        tables: Mapping[str, Table],
        *,
        drop_not_finite: bool = False,
        shard: HashShard = WHOLE,
    ) -> None:
        """Read and check the rows of a shard in the files of the tables, in all links of a chain.

        Raises:
            FileNotFoundError, CorruptFileError, ValueError: A file is missing, damaged, or of other tables.
            NotFiniteError: A row is not finite, and such rows are not to be dropped.
        """
        self._not_finite = not_finite_rows(drop_not_finite)
        self._shard = shard
        self._tables = dict(tables)
        self._files = {name: [self._checked(link, name) for link in links] for name in tables}
        self._erased: list[dict[str, Tensor]] = [{}, *(read_erased(link) for link in links[1:])]

    def load(self) -> None:
        """Let the tables hold the rows of the shard, and nothing else."""
        for name, table in self._tables.items():
            table.clear()
            for paths, erased in zip(self._files[name], self._erased, strict=True):
                if name in erased:
                    table.erase(erased[name])
                load_shard_files(table.native, paths, self._shard, not_finite=self._not_finite)

    def _checked(self, link: Path, name: str) -> list[str]:
        table, paths = self._tables[name], find_shard_files(os.fspath(link / TABLES_NAME / name))
        check_shard_files(
            table.native, table.schema(), paths, cleared=True, not_finite=self._not_finite, shard=self._shard
        )
        return paths
