"""Sends what training changes to the tables that serve."""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from monolith.closing import Closing
from monolith.delta.delta_part import WHOLE_MODEL, DeltaPart
from monolith.delta.link import (
    Delivery,
    DeltaJob,
    DeltaLink,
    DeltaSettings,
    DenseWeights,
    SequenceCounter,
    Watermark,
)
from monolith.delta.messages import DeltaPosition
from monolith.delta.shared_changes import SharedChanges
from monolith.delta.since_export import SinceExport
from monolith.embedding.multi_table import MultiTable
from monolith.errors import CorruptFrameError, FencedError, PlanMismatchError, RemoteError
from monolith.wire import Address


@dataclass(frozen=True, slots=True)
class PushReport:
    """What one push did."""

    deliveries: tuple[Delivery, ...]
    """One for each target that is up to date now."""

    failures: Mapping[Address, Exception]
    """Targets that could not be reached, with the reason; what they missed comes with the next push."""

    refusals: Mapping[Address, FencedError | PlanMismatchError]
    """Targets that follow a newer generation, or serve another lookup plan; `push_once` raises one of these errors."""


class TargetLink(Protocol):
    """One serving target, as a sender keeps it up to date."""

    @property
    def address(self) -> Address:
        """Where it takes deltas."""
        ...

    def push(self) -> Delivery:
        """Bring it up to date; on any error nothing is lost, the next push brings it too."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Sender(Closing):
    """Keeps serving targets up to date with one training job."""

    links: Sequence[TargetLink]

    def push_once(self) -> PushReport:
        """Bring every target up to date; targets that cannot be reached are in the report and lose nothing.

        Raises:
            FencedError: a target follows a newer generation: this job has been replaced and must stop.
            PlanMismatchError: a target serves another lookup plan.
        """
        report = self.push_each()
        if report.refusals:
            refusals = list(report.refusals.values())
            raise next((error for error in refusals if isinstance(error, FencedError)), refusals[0])
        return report

    def push_each(self) -> PushReport:
        """Do what `push_once` does, but return refusals in the report: they do not hide failures of other targets."""
        deliveries: list[Delivery] = []
        failures: dict[Address, Exception] = {}
        refusals: dict[Address, FencedError | PlanMismatchError] = {}
        for link in self.links:
            try:
                deliveries.append(link.push())
            except (OSError, RemoteError, CorruptFrameError) as error:
                failures[link.address] = error
            except (FencedError, PlanMismatchError) as error:
                refusals[link.address] = error
        return PushReport(tuple(deliveries), failures, refusals)

    @abstractmethod
    def retarget(self, targets: Sequence[str | Address]) -> None:
        """Keep these targets up to date from now on; those that stay lose nothing."""

    def close(self) -> None:
        """Stop following changes and close all connections."""
        for link in self.links:
            link.close()


class DeltaSender(Sender):
    """Keeps serving targets up to date with the tables of one training job.

    Changes count from the moment the sender is made. A target that comes from an export whose sequence was read from
    `sequence` gets what changed since; any other gets everything once, then changes. At most six consumers can track a
    table, delta checkpoints included; all targets of a sender are one.
    """

    def __init__(
        self,
        tables: MultiTable | None,
        *,
        part: DeltaPart = WHOLE_MODEL,
        plan_hash: int,
        generation: int,
        targets: Sequence[str | Address],
        dense_weights: DenseWeights | None = None,
        watermark: Watermark | None = None,
        base: DeltaPosition | None = None,
        settings: DeltaSettings | None = None,
    ) -> None:
        """Follow the tables from now on; nothing is sent yet.

        Args:
            tables: the tables in training; None for a sender of dense weights.
            part: what of the model this sender sends; by default all of it.
            plan_hash: hash of the lookup plan; targets with another one refuse.
            generation: which life of the job this is; targets that have seen a later one refuse.
            targets: addresses of the receivers.
            dense_weights: returns (version, weights); sent when the version is another than last time. The weights
                must not change while they are sent: return a copy.
            watermark: returns how far in the stream of events the tables are, for the receivers' `freshness`.
            base: the position of an export that equals the tables as they are now, if there is one.
            settings: time limits, sizes, certificates or the shared secret.
        """
        # Microseconds: a sender started later has higher numbers, even if a crash made it reuse the generation.
        sequences = SequenceCounter(time.time_ns() // 1000)
        followed = {} if tables is None else tables.tables
        changes = SharedChanges(followed)
        self._changes, self._since_export = changes, SinceExport(changes, generation)
        self._job = DeltaJob(
            tables=followed,
            changes=changes,
            since_export=self._since_export,
            part=part,
            plan_hash=plan_hash,
            generation=generation,
            sequences=sequences,
            dense_weights=_no_weights if dense_weights is None else dense_weights,
            watermark=_no_watermark if watermark is None else watermark,
            settings=DeltaSettings() if settings is None else settings,
        )
        self.generation = generation
        self._sequences = sequences
        self.links: Sequence[DeltaLink] = [DeltaLink(Address.parse(target), self._job, base) for target in targets]

    @property
    def sequence(self) -> int:
        """The number of the newest delta."""
        return self._sequences.value

    def begin_export(self) -> int:
        """Return the number for an export that starts now: it contains every change up to this number.

        Targets that load the export get what changed since, not everything.
        """
        mark = self._changes.mark()
        sequence = self._sequences.next()
        self._since_export.add(sequence, mark)
        return sequence

    def retarget(self, targets: Sequence[str | Address]) -> None:
        """Keep these targets up to date from now on; those that stay lose nothing."""
        links = {link.address: link for link in self.links}
        wanted = dict.fromkeys(Address.parse(target) for target in targets)
        self.links = [links.get(address) or DeltaLink(address, self._job, None) for address in wanted]
        for address, link in links.items():
            if address not in wanted:
                link.close()

    def close(self) -> None:
        """Stop following changes and close all connections."""
        super().close()
        self._since_export.close()


def _no_weights() -> tuple[int, Mapping[str, Tensor]]:
    return 0, {}


def _no_watermark() -> Mapping[str, int]:
    return {}
