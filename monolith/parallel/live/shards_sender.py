"""ShardsSender: keeps serving targets up to date with a model whose rows are on parameter servers."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from monolith.checkpoint.shards.frozen_shards import MAX_ASKED_AT_ONCE
from monolith.delta import Delivery, DeltaPart, DeltaPosition, DeltaSender, DeltaSettings, Sender
from monolith.delta.link import DeltaLink, DenseWeights, Watermark
from monolith.errors import FencedError
from monolith.parallel.coordination import ReplacedError
from monolith.parallel.remote_shard import RemoteShard
from monolith.parallel.server_group import RetryConfig
from monolith.wire import Address

_RETRY = RetryConfig(deadline_seconds=10.0, attempt_seconds=5.0)
"""A parameter server that is silent for longer is asked again with the next push."""


class ShardsSender(Sender):
    """Sends a model from several processes: each parameter server sends its rows, this process the dense weights.

    This process decides when. Dense weights and the watermark go last, and name the positions that the rows must be at.
    So a target that has taken them has all that came before.
    """

    def __init__(
        self,
        shards: Sequence[RemoteShard],
        *,
        plan_hash: int,
        generation: int,
        targets: Sequence[str | Address],
        dense_weights: DenseWeights,
        watermark: Watermark,
        secret_folder: Path,
        settings: DeltaSettings,
    ) -> None:
        """Let all servers count changes from now on; they read the shared secret in `secret_folder`."""
        addresses = [Address.parse(target) for target in targets]
        self.generation = generation
        self._dense = DeltaSender(
            None,
            part=DeltaPart(None, len(shards)),
            plan_hash=plan_hash,
            generation=generation,
            targets=addresses,
            dense_weights=dense_weights,
            settings=settings,
        )
        self._shards, self._watermark = shards, watermark
        self._follow: Any = {
            "generation": generation,
            "secret_folder": None if settings.secret is None else str(secret_folder.absolute()),
            "skip_zero_embedding": settings.skip_zero_embedding,
        }
        for shard in shards:
            shard.follow([str(address) for address in addresses], **self._follow)
        # With connections of its own: targets change beside training.
        self._asked = [shard.another(_RETRY) for shard in shards]
        self.links: Sequence[ShardsLink] = [self._linked(link) for link in self._dense.links]

    @property
    def sequence(self) -> int:
        """The number of the newest delta of dense weights."""
        return self._dense.sequence

    def begin_export(self) -> int:
        """Return the number for the dense weights of an export that starts now; each server has one for its rows."""
        return self._dense.begin_export()

    def retarget(self, targets: Sequence[str | Address]) -> None:
        """Keep these targets up to date from now on; those that stay lose nothing."""
        wanted = [Address.parse(target) for target in targets]
        for shard in self._asked:
            shard.follow([str(address) for address in wanted], **self._follow)
        known = {link.address: link for link in self.links}
        self._dense.retarget(wanted)
        self.links = [known.get(link.address) or self._linked(link) for link in self._dense.links]
        for address, link in known.items():
            if address not in wanted:
                link.close()

    def close(self) -> None:
        """Stop following changes and close all connections."""
        super().close()
        self._dense.close()
        for shard in self._asked:
            shard.close()

    def _linked(self, dense: DeltaLink) -> "ShardsLink":
        return ShardsLink([shard.another(_RETRY) for shard in self._shards], dense, self.generation, self._watermark)


class TakenOverError(ReplacedError):
    """The servers of this job follow another trainer now; the job must end, or it would take them back."""


class ShardsLink:
    """One serving target of all parameter servers."""

    def __init__(self, shards: Sequence[RemoteShard], dense: DeltaLink, generation: int, watermark: Watermark) -> None:
        """Take connections of its own: pushes to another target must not wait for this one."""
        self.address = dense.address
        self._shards, self._dense = shards, dense
        self._generation, self._watermark = generation, watermark
        self._pool = ThreadPoolExecutor(min(len(shards), MAX_ASKED_AT_ONCE), thread_name_prefix=f"push {self.address}")

    def push(self) -> Delivery:
        """Let every server send its rows, then send the dense weights; raises as `DeltaLink.push` does.

        Raises:
            TakenOverError: the target follows a later trainer.
        """
        # First: whatever it counts is in the rows that are sent below.
        watermark = self._watermark()
        try:
            sent = list(self._pool.map(self._push_rows, self._shards))
            delivery = self._dense.push(watermark=watermark, after=[DeltaPosition(*one["position"]) for one in sent])
        except FencedError as error:
            # Not as a lost process, after which the job would begin again and take the target back.
            raise TakenOverError(f"another trainer has taken over: {error}") from error
        return Delivery(
            self.address,
            delivery.position,
            num_rows=sum(one["num_rows"] for one in sent),
            num_erased=sum(one["num_erased"] for one in sent),
            dense=delivery.dense,
            full=any(one["full"] for one in sent),
        )

    def close(self) -> None:
        """Close the connections; a push under way fails."""
        self._pool.shutdown(wait=False)
        for shard in self._shards:
            shard.close()
        self._dense.close()

    def _push_rows(self, shard: RemoteShard) -> dict[str, Any]:
        return shard.push_changes(str(self.address), generation=self._generation)
