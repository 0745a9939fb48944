"""Where events come from, one function each: the beginnings of pipelines."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader

from monolith.data.columnar import ArrowSource, CsvSource, JsonLinesSource, ParquetSource
from monolith.data.columnar.file_list import Files
from monolith.data.event_log import EventLogSource
from monolith.data.files import PbFraming, RecordFileSource, expand_patterns
from monolith.data.in_memory import ArraySource, DataLoaderSource, FrameSource, IterableSource
from monolith.data.input_config import current_input
from monolith.data.kafka import KafkaSource
from monolith.data.pipeline import Pipeline
from monolith.data.schema import Dtype, Schema
from monolith.data.source import OnError
from monolith.data.synthetic import EventMaker, SyntheticSource
from monolith.tensors import Ragged

KAFKA_SERVERS = "localhost:9092"

Given = TypeVar("Given")


def tfrecord(
    files: str | Sequence[str] | None = None,
    *,
    batch_size: int,
    on_error: OnError = "raise",
    **options: Any,
) -> Pipeline:
    """Read serialized records of TFRecord files ("clicks-{INT(0,99)}", "s3://bucket/*"); follow with `parse`.

    Without `files`, those that the settings of the run name: `input_path`, `start_date` and so on. See
    `RecordFileSource` for the options.
    """
    found = _files(None if files is None else expand_patterns(files))
    return Pipeline(RecordFileSource(found, batch_size=batch_size, on_error=on_error, **options))


def pb_files(
    files: str | Sequence[str] | None = None, *, batch_size: int, framing: PbFraming | None = None, **options: Any
) -> Pipeline:
    """Read serialized records of the original's PB streams, or of standard input (""); follow with `parse`.

    Without `files` or `framing`, those that the settings of the run name: `input_path`, `sort_id` and so on.
    """
    found = _files(files if files in (None, "") else expand_patterns(files))
    framing = current_input().framing if framing is None else framing
    return Pipeline(RecordFileSource(found, batch_size=batch_size, framing=framing, **options))


def kafka(
    topics: Sequence[str] | None = None, servers: str | None = None, *, batch_size: int, **options: Any
) -> Pipeline:
    """Read the messages of Kafka topics; follow with `parse`. See `KafkaSource` for the options.

    What is not given here is taken from the settings of the run: `kafka_topics`, `kafka_servers`, `kafka_group_id`.
    """
    settings = current_input()
    topics = topics or settings.kafka_topics
    if not topics:
        raise ValueError("no Kafka topic to read; name topics here, or kafka_topics in the settings of the run")
    if settings.kafka_group_id is not None:
        options.setdefault("group_id", settings.kafka_group_id)
    return Pipeline(
        KafkaSource(topics, servers or settings.kafka_servers or KAFKA_SERVERS, batch_size=batch_size, **options)
    )


def event_log(
    path: str | os.PathLike[str],
    *,
    batch_size: int,
    follow: bool = False,
    start: int = 0,
    stop: threading.Event | None = None,
) -> Pipeline:
    """Read an event log, which has its columns already; see `EventLogSource`."""
    return Pipeline(EventLogSource(path, batch_size=batch_size, follow=follow, start=start, stop=stop))


def parquet(files: Files | None = None, *, batch_size: int = 512, **options: Any) -> Pipeline:
    """Read Parquet files, by default those that the settings of the run name; see `ParquetSource` for the options."""
    return Pipeline(ParquetSource(_files(files), batch_size, **options))


def arrow(files: Files | None = None, *, batch_size: int = 512, **options: Any) -> Pipeline:
    """Read Arrow IPC or Feather files, by default those of the run's settings; see `ArrowSource` for the options."""
    return Pipeline(ArrowSource(_files(files), batch_size, **options))


def csv(
    files: Files | None = None, *, batch_size: int = 512, options: Mapping[str, Any] | None = None, **columns: Dtype
) -> Pipeline:
    """Read CSV files with these columns: `csv("clicks-*.csv", uid="int64", label="float32")`; see `CsvSource`.

    Without `files`, those that the settings of the run name.
    """
    schema = Schema(tuple(columns.items()))
    return Pipeline(CsvSource(_files(files), schema, batch_size=batch_size, **(options or {})))


def jsonl(
    files: Files | None = None, *, batch_size: int = 512, options: Mapping[str, Any] | None = None, **columns: Dtype
) -> Pipeline:
    """Read files of one JSON object per line, by default those of the run's settings; see `JsonLinesSource`."""
    schema = Schema(tuple(columns.items()))
    return Pipeline(JsonLinesSource(_files(files), schema, batch_size=batch_size, **(options or {})))


def frame(data: Any, *, batch_size: int = 512, **options: Any) -> Pipeline:
    """Read a pandas or polars frame; see `FrameSource` for the options."""
    return Pipeline(FrameSource(data, batch_size, **options))


def arrays(
    columns: Mapping[str, np.ndarray[Any, Any] | Tensor | Ragged | Sequence[Any]],
    *,
    batch_size: int = 512,
    **options: Any,
) -> Pipeline:
    """Read arrays, tensors or lists, a column each; see `ArraySource` for the options, such as `schema`.

    >>> [batch.columns["uid"].tolist() for batch in arrays({"uid": [1, 2, 3]}, batch_size=2)]
    [[1, 2], [3]]
    """
    return Pipeline(ArraySource(columns, batch_size, **options))


def iterable(
    make_items: Callable[[], Iterable[Mapping[str, Any]]], *, batch_size: int | None = None, **options: Any
) -> Pipeline:
    """Read what a function's iterable yields: events as dicts, or whole batches if `batch_size` is None.

    See `IterableSource` for the options, such as `schema`.
    """
    return Pipeline(IterableSource(make_items, batch_size, **options))


def data_loader(loader: DataLoader[Any], *, names: Sequence[str] | None = None) -> Pipeline:
    """Read a PyTorch DataLoader; `names` names the columns if it yields tuples."""
    return Pipeline(DataLoaderSource(loader, names=names))


def synthetic(generator: EventMaker, *, batch_size: int, count: int | None = None) -> Pipeline:
    """Make events up, such as those of `CriteoEvents` or `MovieEvents`; `count` ends them."""
    return Pipeline(SyntheticSource(generator, batch_size, count))


def _files(given: Given | None) -> Given | list[str]:
    if given is not None:
        return given
    found = current_input().files
    if found is None:
        raise ValueError("no file to read; name files here, or input_path in the settings of the run")
    return expand_patterns(found)  # a day or an hour without files is no error
