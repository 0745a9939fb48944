"""ExportedShards: the tables of a version, written by the parameter servers that hold the rows."""

from collections.abc import Callable, Sequence
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

    @property
    def num_shards(self) -> int:
        """Number of servers."""
        return len(self._shards)

    def write(
        self, folder_of: Callable[[int], Path], *, skip_zero_embedding: bool
    ) -> tuple[list[dict[str, int]], list[int]]:
        """Write the tables of each shard into its folder.

        Returns the numbers of rows by table, and the number of the newest delta before that, of each shard.
        """
        folders = {shard: str(folder_of(number).absolute()) for number, shard in enumerate(self._shards)}
        written = ask_all(
            self._shards,
            lambda shard: shard.export_tables(
                folders[shard], generation=self._generation, skip_zero_embedding=skip_zero_embedding
            ),
        )
        return [dict(one["num_rows"]) for one in written], [one["sequence"] for one in written]

    def close(self) -> None:
        """Close the connections."""
        for shard in self._shards:
            shard.close()
