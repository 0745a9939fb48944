"""CSV files of texts and numbers: against pyarrow and pandas, and a training run on them against one on arrays."""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.data.records import DENSE_NAMES, ID_NAMES, LABEL, Records
from benchmarks.data.sizes import DataSizes
from benchmarks.measure import Contender, interleave, speed_ratio, timed
from monolith import Estimator, RunConfig
from monolith.data import Batch, Pipeline, Schema, arrays
from monolith.data import csv as csv_source
from monolith.data.columnar.arrow import arrow
from monolith.features import ids_of_texts
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model.zoo.deepfm import DeepFM

TEXTS = Schema(tuple((name, "hash") for name in ID_NAMES))
EVENTS = Schema((*TEXTS.columns, *((name, "float32") for name in (LABEL, *DENSE_NAMES))))
MODEL = Schema((*TEXTS.columns, (LABEL, "float32"), ("dense", f"float32[{len(DENSE_NAMES)}]")))


class CsvEvents:
    """The events of the records as a CSV file, and as columns in memory; ids are texts of eight hexadecimal digits."""

    def __init__(self, records: Records, folder: Path) -> None:
        """Write the file."""
        self.path = str(folder / "events.csv")
        self.columns: dict[str, Any] = {name: records.columns[name] for name in (LABEL, *DENSE_NAMES)}
        self.texts = {name: [f"{id_ & 0xFFFFFFFF:08x}" for id_ in records.columns[name].tolist()] for name in ID_NAMES}
        self.num_events = len(self.columns[LABEL])
        # As few digits as name the float32, as programs write it.
        numbers = {name: column.astype(str).tolist() for name, column in self.columns.items()}
        _write_csv(self.path, {**self.texts, **numbers})
        self.texts_path = str(folder / "texts.csv")
        """A file of the texts alone."""
        _write_csv(self.texts_path, self.texts)

    def from_csv(self, batch_size: int) -> Pipeline:
        """Return the file as batches."""
        return csv_source(self.path, batch_size=batch_size, **dict(EVENTS))

    def from_arrays(self, batch_size: int) -> Pipeline:
        """Return what is in memory as batches, the texts as ids already."""
        ids = {name: ids_of_texts(texts) for name, texts in self.texts.items()}
        return arrays({**ids, **self.columns}, batch_size=batch_size, schema=EVENTS)


def _write_csv(path: str, columns: Mapping[str, list[str]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def measure_csv(records: Records, sizes: DataSizes, folder: Path) -> dict[str, Any]:
    """Return seconds of a pass over the file, and the ratios of rates."""
    events = CsvEvents(records, folder)
    hashing = interleave(
        {"ours": _our_hashing(events, sizes), "pyarrow": _pyarrow_and_pandas(events)}, rounds=sizes.rounds
    )
    training = interleave(
        {
            "csv": _training(events.from_csv(sizes.batch_size), sizes),
            "arrays": _training(events.from_arrays(sizes.batch_size), sizes),
        },
        rounds=sizes.rounds,
    )
    return {
        "hashing": {name: taken.summary(events.num_events) for name, taken in hashing.items()},
        "hash_vs_pyarrow": speed_ratio(hashing["ours"], hashing["pyarrow"]),
        "training": {name: taken.summary(events.num_events) for name, taken in training.items()},
        "csv_vs_arrays": speed_ratio(training["csv"], training["arrays"]),
    }


def _our_hashing(events: CsvEvents, sizes: DataSizes) -> Contender:
    def run() -> None:
        found = sum(len(batch) for batch in csv_source(events.texts_path, batch_size=sizes.batch_size, **dict(TEXTS)))
        if found != events.num_events:
            raise RuntimeError(f"the file gave {found} events, {events.num_events} were written")

    return lambda seed: timed(run)


def _pyarrow_and_pandas(events: CsvEvents) -> Contender:
    """Return the faster way of pandas: it finds equal texts first and hashes each of them once."""
    import pandas  # noqa: PLC0415  the benchmark alone needs it

    reader, text = arrow("csv"), arrow().string()
    options = reader.ConvertOptions(column_types=dict.fromkeys(ID_NAMES, text))

    def run() -> None:
        table = reader.read_csv(events.texts_path, convert_options=options)
        for name in ID_NAMES:
            pandas.util.hash_pandas_object(table.column(name).to_pandas(), index=False)

    return lambda seed: timed(run)


class _Stopwatch(Hook):
    """Times a run from the moment it asks for the first batch to the end of its last step."""

    def __init__(self) -> None:
        self.seconds = self._start = 0.0

    def after_create_session(self, context: RunContext) -> None:
        self._start = time.perf_counter()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        self.seconds = time.perf_counter() - self._start


def _with_dense(batch: Batch) -> Batch:
    columns: dict[str, Any] = dict(batch.columns)
    dense = torch.stack([columns.pop(name) for name in DENSE_NAMES], 1)
    return batch.with_columns({**columns, "dense": dense})


def _training(source: Pipeline, sizes: DataSizes) -> Contender:
    source = source.map(_with_dense, MODEL)

    def run(seed: int) -> float:
        params = DeepFM.params()
        params.dim, params.hidden, params.source = sizes.embedding_dim, sizes.hidden, lambda mode: source
        with tempfile.TemporaryDirectory(prefix="monolith-csv-") as folder:
            quiet = RunConfig(model_dir=folder, log_step_count_steps=0, save_summary_steps=0)
            estimator = Estimator(DeepFM, quiet, params=params)
            watch = _Stopwatch()
            result = estimator.train(hooks=[watch])
            if result.global_step < sizes.num_batches:
                raise RuntimeError(f"{result.global_step} steps, there are {sizes.num_batches} batches")
        return watch.seconds

    return run
