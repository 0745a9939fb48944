"""Summaries for TensorBoard: scalars, histograms, and the tensors of the `monolith` plugin."""

from monolith.observe.summary.head import (
    KDATA,
    KMETA,
    KTYPE,
    MONOLITH_FI_DATA,
    MONOLITH_NAS_DATA,
    PLUGIN_NAME,
    SummaryType,
    prepare_head,
)

__all__ = [
    "KDATA",
    "KMETA",
    "KTYPE",
    "MONOLITH_FI_DATA",
    "MONOLITH_NAS_DATA",
    "PLUGIN_NAME",
    "SummaryType",
    "prepare_head",
]
