"""The figures that reading and parsing are judged by."""

from __future__ import annotations

from typing import Any

from benchmarks.report import Figure


def figures(
    parsing: dict[str, Any],
    framing: dict[str, Any],
    overlap: dict[str, Any],
    csv_files: dict[str, Any],
    service: dict[str, Any] | None,
) -> list[Figure]:
    """Return all figures, with their goals, from the details of the stages."""
    return [
        Figure(
            name="parse_vs_tensorflow",
            value=_worst(parsing, "tensorflow"),
            at_least=2.0,
            meaning="tf.Examples to tensors against tf.io.parse_example, all cores on both sides",
        ),
        Figure(
            name="parse_vs_protobuf",
            value=_worst(parsing, "protobuf"),
            at_least=20.0,
            meaning="the same against Python's protobuf (upb)",
        ),
        Figure(
            name="tfrecord_vs_read",
            value=framing["vs_read"],
            at_least=0.5,
            meaning="records of TFRecord files against reading the bytes and their CRC-32C alone",
        ),
        Figure(
            name="prefetch_overlap",
            value=overlap["hidden"],
            at_least=0.9,
            meaning="share of reading and parsing that a training step hides, half of the cores each",
        ),
        Figure(
            name="hash_csv_vs_pyarrow",
            value=csv_files["hash_vs_pyarrow"],
            at_least=3.0,
            meaning="26 columns of text to ids, against pyarrow reading the file and pandas hashing",
        ),
        Figure(
            name="csv_vs_arrays",
            value=csv_files["csv_vs_arrays"],
            at_least=0.8,
            meaning="events trained per second from a CSV file against the same from arrays",
        ),
        Figure(
            name="service_vs_local",
            value=None if service is None else service["vs_local"],
            at_least=0.6,
            meaning="parsed batches from a service with one worker against parsing here",
        ),
    ]


def _worst(parsing: dict[str, Any], peer: str) -> float | None:
    """Return the lesser of the ratios for ids as numbers and as lists."""
    ratios = [parsing[name] for name in (f"fixed_vs_{peer}", f"ragged_vs_{peer}") if name in parsing]
    return min(ratios) if ratios else None
