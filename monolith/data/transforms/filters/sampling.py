"""Filters that keep a share of the events, drawn by the batch's name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.draws import batch_uniforms
from monolith.data.transforms.actions import priorities
from monolith.data.transforms.columns import get_int_lists
from monolith.data.transforms.config_text import Piece, parse_actions
from monolith.data.transforms.labels.column import get_labels, padded_labels, with_labels
from monolith.data.transforms.step import Filter, Transform


@dataclass(frozen=True)
class NegativeSample(Filter):
    """Drops a share of the negatives: of the events whose label is below a threshold."""

    drop_rate: float
    """Share to drop."""

    label_index: int = 0
    """Which label decides."""

    threshold: float = 0.0

    action_priority: str | None = None
    """Actions by falling priority, 'a,b,...': needed where each action has its own rate."""

    per_action_drop_rate: str | None = None
    """'action:rate,...': rate for negatives whose action of highest priority is this."""

    seed: int = 0

    def __post_init__(self) -> None:
        """Reject rates that are none."""
        if not 0 <= self.drop_rate <= 1:
            raise ValueError(f"NegativeSample: drop_rate must be from 0 to 1, got {self.drop_rate}")
        if self.label_index < 0:
            raise ValueError(f"NegativeSample: label_index must not be negative, got {self.label_index}")
        if self._rates and not self._order:
            raise ValueError("NegativeSample: per_action_drop_rate needs action_priority, to know which action counts")

    @cached_property
    def _order(self) -> tuple[int, ...]:
        return parse_actions("NegativeSample action_priority", self.action_priority or "")

    @cached_property
    def _rates(self) -> Mapping[int, float]:
        pieces = Piece("NegativeSample per_action_drop_rate", self.per_action_drop_rate or "").split(",")
        rates: dict[int, float] = {}
        for piece in pieces:
            parts = piece.split(":")
            if len(parts) != 2:
                raise piece.error("'action:rate'")
            rates[parts[0].number()] = parts[1].real(0.0, 1.0)
        return rates

    def mask(self, batch: Batch) -> Tensor:
        """Return which events stay."""
        labels, lengths = padded_labels(batch, "NegativeSample")
        if len(batch) and int(lengths.min()) <= self.label_index:
            raise ValueError(
                f"NegativeSample: an event of batch {batch.name} has {int(lengths.min())} labels, number "
                f"{self.label_index} is needed"
            )
        rates = torch.full((len(batch),), self.drop_rate, dtype=torch.float64)
        if self._rates:
            actions = get_int_lists(batch, "actions", "NegativeSample")
            places = priorities(actions, self._order, unknown=len(self._order), absent=len(self._order))
            for action, rate in self._rates.items():
                if action in self._order:
                    rates[places == self._order.index(action)] = rate
        dropped = batch_uniforms(self.seed, batch, "NegativeSample", len(batch)) < rates
        is_negative = labels[:, self.label_index] < self.threshold if len(batch) else dropped
        return ~(is_negative & dropped)


@dataclass(frozen=True)
class SpecialStrategy(Transform):
    """Keeps a share of the events of each special strategy, and may give them a label.

    The first strategy of the list that an event has decides. One that has strategies, but none of the list, is dropped.
    """

    strategy_list: Sequence[int]
    """Strategies by falling priority."""

    strategy_conf: str = ""
    """'strategy:rate[:label],...': share to keep, and the first label of kept events; without an entry, all stay."""

    keep_empty_strategy: bool = True
    """Whether to keep events that have no strategy at all."""

    seed: int = 0

    def __post_init__(self) -> None:
        """Reject an empty list, and a conf that cannot be read."""
        if not self.strategy_list:
            raise ValueError("SpecialStrategy: strategy_list is empty")
        object.__setattr__(self, "strategy_list", tuple(self.strategy_list))
        _ = self._conf

    @cached_property
    def _conf(self) -> Mapping[int, tuple[float, float | None]]:
        conf = {}
        for piece in Piece("SpecialStrategy strategy_conf", self.strategy_conf).split(","):
            parts = piece.split(":")
            if len(parts) not in (2, 3):
                raise piece.error("'strategy:rate' or 'strategy:rate:label'")
            conf[parts[0].number()] = parts[1].real(0.0, 1.0), parts[2].real() if len(parts) == 3 else None
        return conf

    def mask(self, batch: Batch) -> Tensor:
        """Return which events stay."""
        places = self._places(batch)
        kept = (places == -1) & self.keep_empty_strategy
        draws = batch_uniforms(self.seed, batch, "SpecialStrategy", len(batch))
        for place, strategy in enumerate(self.strategy_list):
            rate, _ = self._conf.get(strategy, (1.0, None))
            kept |= (places == place) & (draws < rate)
        return kept

    def __call__(self, batch: Batch) -> Batch:
        """Return the events that stay, with the labels of their strategies."""
        kept = self.mask(batch)
        places = self._places(batch)[kept]
        batch = batch.select(kept)
        if all(label is None for _, label in self._conf.values()):
            return batch
        labels = get_labels(batch, "SpecialStrategy").clone()
        for place, strategy in enumerate(self.strategy_list):
            _, label = self._conf.get(strategy, (1.0, None))
            if label is not None:
                labels[places == place, :1] = label
        return with_labels(batch, labels)

    def _places(self, batch: Batch) -> Tensor:
        """Return each event's place in the list; -1 if it has no strategy, the list's length if none of the list."""
        strategies = get_int_lists(batch, "special_strategies", "SpecialStrategy")
        return priorities(strategies, self.strategy_list, unknown=len(self.strategy_list), absent=-1)
