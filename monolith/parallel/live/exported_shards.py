"""ExportedShards: the tables of a version, written by the parameter servers that hold the rows."""

from collections.abc import Sequence
from pathlib import Path

from monolith.checkpoint.shards.frozen_shards import ask_all
from monolith.closing import Closing
from monolith.parallel.remote_shard import RemoteShard


class ExportedShards(Closing):
    """Writes a version's tables: every server one file per table, at the same time."""

    def __init__(self, shards: Sequence[RemoteShard], *, generation: int) -> None:
        """Take the servers in order, with connections of its own: versions are written beside training."""
        self._shards = [shard.another() for shard in shards]
        self._generation = generation

    def write(self, folder: Path, *, skip_zero_embedding: bool) -> tuple[dict[str, int], list[int]]:
        """Write all tables into a folder; return their numbers of rows.

        Also return, for every shard, the number of its newest delta before it read its rows.
        """
        path = str(folder.absolute())
        written = ask_all(
            self._shards,
            lambda shard: shard.export_tables(
                path, generation=self._generation, skip_zero_embedding=skip_zero_embedding
            ),
        )
        num_rows: dict[str, int] = {}
        for one in written:
            for name, count in one["num_rows"].items():
                num_rows[name] = num_rows.get(name, 0) + count
        return num_rows, [one["sequence"] for one in written]

    def close(self) -> None:
        """Close the connections."""
        for shard in self._shards:
            shard.close()
