"""Some tables of a snapshot alone, also into tables whose rows are made differently."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from monolith._core import native
from monolith.checkpoint.format.delta_chain import chain_to, check_chain, read_erased
from monolith.checkpoint.format.layout import TABLES_NAME
from monolith.checkpoint.restore.saved_tables import saved_configs
from monolith.embedding import Table, TableConfig
from monolith.embedding.shard_files import (
    NotFinite,
    check_shard_files,
    find_shard_files,
    load_shard_files,
    not_finite_rows,
)
from monolith.features.fid import slot_of_v2

_NUM_PARTS = 16
"""A sixteenth of a table is in memory twice."""


def restore_tables(
    path: str | os.PathLike[str],
    tables: Mapping[str, Table],
    *,
    slots: Collection[int] | None = None,
    drop_not_finite: bool = False,
) -> dict[str, int]:
    """Make tables what those of the same name were in a snapshot or delta; returns the number of rows of each.

    A table that the snapshot has under one of its `extra_restore_names` only is taken from there.
    Other tables of the snapshot are left alone, and so are rows of other slots than `slots`, if given. The rows may be
    made differently: a serving table takes the weights through its compressors, and a table with other optimizers takes
    the weights and starts with fresh optimizer state. Only the widths of the segments have to agree. Filters are not
    restored. With `drop_not_finite`, ids whose row is not finite get none; a warning is logged.

    Raises:
        KeyError: The snapshot has no such table.
        ValueError: The segments have other widths.
        CorruptFileError: A file is damaged, or a link of the chain is broken.
        NotFiniteError: A row is not finite; the message names table and id.
    """
    links, not_finite = chain_to(Path(path)), not_finite_rows(drop_not_finite)
    saved = saved_configs(links[-1], check_chain(links)[-1])
    found = {name: _saved_name(path, name, table.config, saved) for name, table in tables.items()}
    for name, table in tables.items():
        _check_widths(path, saved[found[name]], table.config)
        _check_files(links, found[name], saved[found[name]], not_finite)
    return {
        name: _Copy(links, found[name], saved[found[name]], table, slots, not_finite).run()
        for name, table in tables.items()
    }


class _Copy:
    def __init__(
        self,
        links: Sequence[Path],
        name: str,
        saved: TableConfig,
        table: Table,
        slots: Collection[int] | None,
        not_finite: NotFinite,
    ) -> None:
        self._files = [find_shard_files(str(link / TABLES_NAME / name)) for link in links]
        erased = [read_erased(link) for link in links[1:]]
        self._erased: list[Tensor | None] = [None, *(ids.get(name) for ids in erased)]
        self._saved = saved
        self._table = table
        self._slots = slots
        self._not_finite = not_finite
        self._is_same = _row_kind(saved) == _row_kind(table.config)

    def run(self) -> int:
        self._table.clear()
        for number in range(_NUM_PARTS):
            part = Table(self._saved)
            for paths, erased in zip(self._files, self._erased, strict=True):
                if erased is not None:
                    part.erase(erased)
                load_shard_files(part.native, paths, (number, _NUM_PARTS), not_finite=self._not_finite)
            self._add(part)
            self._table.native.raise_max_time(part.native.max_time)
            self._table.native.raise_max_step(part.native.max_step)
        return len(self._table)

    def _add(self, part: Table) -> None:
        made = part if self._is_same else self._converted(part)
        for sub_table in range(native.NUM_SUB_TABLES):
            ids, last_seen, _ = part.native.read_rows(sub_table)
            if len(ids) == 0:
                continue
            made_ids, _, rows = made.native.read_rows(sub_table)
            last_seen = last_seen[np.isin(ids, made_ids)]  # zero rows may be left out; the order is the same
            if self._slots is not None:
                wanted = np.isin(slot_of_v2(torch.from_numpy(made_ids)).numpy(), list(self._slots))
                made_ids, last_seen, rows = made_ids[wanted], last_seen[wanted], np.ascontiguousarray(rows[wanted])
            self._table.native.restore(made_ids, last_seen, rows)

    def _converted(self, part: Table) -> Table:
        table = Table(self._table.config, shard=part.shard)
        for ids, weights in part.items():
            table.assign(ids, weights)
        return table


def _saved_name(path: str | os.PathLike[str], name: str, config: TableConfig, saved: Mapping[str, TableConfig]) -> str:
    names = (name, *config.extra_restore_names)
    found = next((one for one in names if one in saved), None)
    if found is None:
        raise KeyError(f"{path} has no table {' nor '.join(map(repr, names))}; it has {', '.join(saved)}")
    return found


def _row_kind(config: TableConfig) -> list[object]:
    if config.serving:
        return [(segment.dim, "serving", segment.compressor) for segment in config.segments]
    return [(segment.dim, "training", segment.optimizer.kind) for segment in config.segments]


def _check_widths(path: str | os.PathLike[str], saved: TableConfig, wanted: TableConfig) -> None:
    saved_dims, wanted_dims = ([segment.dim for segment in config.segments] for config in (saved, wanted))
    if saved_dims != wanted_dims:
        raise ValueError(
            f"{path}: table {saved.name!r} has segments of widths {saved_dims}, the table to restore has "
            f"{wanted_dims}; make it of the same widths"
        )


def _check_files(links: Sequence[Path], name: str, saved: TableConfig, not_finite: NotFinite) -> None:
    table = Table(saved)
    for link in links:
        paths = find_shard_files(str(link / TABLES_NAME / name))
        check_shard_files(table.native, table.schema(), paths, cleared=True, not_finite=not_finite)
