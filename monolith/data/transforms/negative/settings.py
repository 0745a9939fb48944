"""Settings of negative generation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from monolith.data.transforms.config_text import parse_actions

KEEP_ACTIONS = -99999
"""As a negative action: negatives keep the actions of their positive."""

ONE_CHANNEL = 3
"""Channel of events that have none."""


@dataclass(frozen=True, kw_only=True)
class NegativeGenConfig:
    """How negatives are drawn."""

    neg_num: int
    """Most negatives per positive."""

    item_features: Sequence[str] = ()
    """Columns that belong to the item: a negative has those of the item drawn, and all others of its positive."""

    per_channel: bool = False
    """Whether each channel has items of its own."""

    channel_feature: str = ""
    """Column whose first id is the channel; 0 is a channel without negatives."""

    start_num: int = 500
    """Negatives are drawn once a channel has more items than this."""

    max_item_num: int = 100_000
    """Most items per channel."""

    positive_label: float = 1.0
    negative_label: float = -1.0

    negative_action: int = KEEP_ACTIONS
    """What the actions of a negative are replaced by, unless it is -99999."""

    positive_actions: Sequence[int] = ()
    """If given, an event is positive by its action of highest priority, not by its label."""

    label_index: int = 0
    """Which label says that an event is positive, and becomes that of a negative."""

    action_priority: str = ""
    """Actions by falling priority, 'a,b,...'; an event with none of them goes by its first."""

    index_feature: str = ""
    """Column whose first id names the item; empty for "item_id"."""

    throw_origin: bool = False
    """Drop all events but the negatives drawn."""

    throw_origin_neg: bool = False
    """Drop the negatives that were there."""

    cache_only_pos: bool = True
    """Whether only items of positives can be drawn, and those of `cache_negative_actions`."""

    cache_negative_actions: Sequence[int] = ()
    """Items of negatives with one of these actions can be drawn too."""

    real_neg_instance_weight: float = 1.0
    """Weight of the negatives that were there; 1 if it is not positive."""

    sampled_neg_instance_weight: float = -1.0
    """Weight of the negatives drawn, if positive."""

    unbias_sampled_neg: bool = True
    """Else, whether the weight makes up for how often and when the item came: 1 + neg_num * time ** factor * freq."""

    origin_neg_in_pool_proba: float = 1.0
    """Share of the negatives there are whose items can be drawn."""

    neg_sample_declay_factor: float = 1.0
    """The power of time in the weight; time is 1 for the newest item and near 0 for the oldest."""

    easy_hard_ratio: float = 0.0
    """With `per_channel`, share of the negatives drawn from any channel, by the number of its items."""

    seed: int = 0

    def __post_init__(self) -> None:
        """Reject settings that could only fail later."""
        if self.neg_num < 0 or self.label_index < 0:
            raise ValueError(f"neg_num and label_index must not be negative, got {self.neg_num} and {self.label_index}")
        if self.per_channel and not self.channel_feature:
            raise ValueError("per_channel needs channel_feature, the column that says the channel")
        if self.cache_negative_actions and not self.cache_only_pos:
            raise ValueError("cache_negative_actions has no effect with cache_only_pos=False, which keeps every item")
        if not self.per_channel and self.easy_hard_ratio > 0:
            raise ValueError("easy_hard_ratio has no effect without per_channel")
        if not 0 <= self.origin_neg_in_pool_proba <= 1 or not 0 <= self.easy_hard_ratio <= 1:
            raise ValueError(
                "origin_neg_in_pool_proba and easy_hard_ratio must be from 0 to 1, got "
                f"{self.origin_neg_in_pool_proba} and {self.easy_hard_ratio}"
            )
        _ = self.priority_order

    @cached_property
    def priority_order(self) -> tuple[int, ...]:
        """`action_priority`, read."""
        return parse_actions("action_priority", self.action_priority)
