"""The figures that the table is judged by: the worst case over widths and distributions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.ids import DISTRIBUTIONS
from benchmarks.machine import num_cores
from benchmarks.report import Figure


def figures(
    lookup: list[dict[str, Any]], training: dict[str, Any], sharing: dict[str, Any], growth: dict[str, Any]
) -> list[Figure]:
    """Return all figures, with their goals, from the details of the stages."""
    return [
        *_lookup_figures(lookup),
        *_training_figures(training),
        *_sharing_figures(sharing),
        *_growth_figures(growth),
    ]


def _worst(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def _lookup_figures(lookup: list[dict[str, Any]]) -> list[Figure]:
    arrays = [width["arrays"][name] for width in lookup for name in DISTRIBUTIONS]
    tfra = [width["tfra"] for width in lookup if width["tfra"] is not None]

    def against_arrays(figure: str, goal: float | None, meaning: str) -> Figure:
        value = _worst(case[figure] for case in arrays)
        return Figure(name=figure, value=value, at_least=goal, meaning=meaning)

    tfra_lookup = _worst(width["lookup"][name]["lookup_vs_tfra"] for width in tfra for name in DISTRIBUTIONS)
    tfra_insert = _worst(width["insert"]["insert_vs_tfra"] for width in tfra)
    overhead = max(width["overhead_bytes_per_row"] for width in lookup)
    return [
        against_arrays("lookup_vs_index_select", 0.95, "speed against torch.index_select on a plain array"),
        against_arrays("lookup_vs_bound", 0.6, "share of a prefetched gather from a plain array"),
        against_arrays("lookup_vs_bound_huge", None, "the same, the array on huge pages too"),
        against_arrays("lookup_vs_bound_far", None, "the same, its rows fetched 64 ahead instead of 16"),
        Figure(name="lookup_vs_tfra", value=tfra_lookup, at_least=5.0, meaning="speed against TFRA's cuckoo table"),
        Figure(name="insert_vs_tfra", value=tfra_insert, at_least=5.0, meaning="the same, inserting new ids"),
        Figure(name="overhead_bytes_per_row", value=overhead, at_most=24.0, meaning="memory beyond the payload"),
    ]


def _training_figures(training: dict[str, Any]) -> list[Figure]:
    def worst(figure: str) -> float | None:
        return _worst(training[name][figure] for name in DISTRIBUTIONS)

    rowwise, full = worst("train_vs_fbgemm_rowwise"), worst("train_vs_fbgemm_full")
    bounds = [case for name in DISTRIBUTIONS for case in training[name]["bound"].values()]
    return [
        Figure(
            name="train_vs_bound",
            value=_worst(case["train_vs_bound"] for case in bounds),
            at_least=0.6,
            meaning="share of a prefetched gather and step on a plain array, at the worst number of threads",
        ),
        Figure(
            name="train_vs_bound_far",
            value=_worst(case["train_vs_bound_far"] for case in bounds),
            meaning="the same, the array's rows fetched 64 and 48 ahead instead of 16 and 12",
        ),
        Figure(
            name="train_vs_torch",
            value=worst("train_vs_torch"),
            at_least=7.0,
            meaning="training step against EmbeddingBag(sparse=True) and torch.optim.Adagrad",
        ),
        Figure(
            name="train_vs_fbgemm",
            value=_worst([rowwise, full]),
            at_least=1.5,
            meaning="training step against FBGEMM, the lesser of the next two",
        ),
        Figure(name="train_vs_fbgemm_rowwise", value=rowwise, at_least=1.5, meaning="rowwise Adagrad on both sides"),
        Figure(name="train_vs_fbgemm_full", value=full, at_least=3.0, meaning="full Adagrad on both sides"),
    ]


def _sharing_figures(sharing: dict[str, Any]) -> list[Figure]:
    few_cores = num_cores() <= 2
    return [
        Figure(
            name="two_writers_vs_one",
            value=sharing["writers"]["two_writers_vs_one"],
            at_least=1.5,
            meaning="two threads that push to the same tables at once, together over one",
        ),
        Figure(
            name="busy_vs_quiet",
            value=sharing["busy"]["busy_vs_quiet"],
            at_least=0.45 if few_cores else 0.7,
            meaning="speed of a step on all cores that is left while another program takes one of them",
        ),
    ]


def _growth_figures(growth: dict[str, Any]) -> list[Figure]:
    first, last, pauses = growth["sizes"][0], growth["sizes"][-1], growth["pauses"]
    span = f"from {first['num_rows']:,} to {last['num_rows']:,} rows"
    overhead = max(step["overhead_bytes_per_row_worst"] for step in growth["sizes"])
    return [
        Figure(name="growth_lookup_cost", value=last["lookup_cost"], meaning=f"cost of a lookup, {span}"),
        Figure(name="growth_insert_cost", value=last["insert_cost"], meaning=f"cost of an insert, {span}"),
        Figure(
            name="growth_overhead_bytes_per_row_worst",
            value=overhead,
            meaning="memory beyond the payload at the worst moment of growing",
        ),
        Figure(
            name="longest_pause_milliseconds",
            value=pauses["longest_milliseconds"],
            meaning=f"slowest insert while growing; the median one took {pauses['median_milliseconds']:.3g}",
        ),
        Figure(
            name="longest_pause_vs_median",
            value=pauses["longest_vs_median"],
            at_most=4.0,
            meaning="the same, as a ratio",
        ),
    ]
