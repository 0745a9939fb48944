"""DeepInsightHook: one message per sampled event, with what the model predicted."""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from monolith.data import Batch, Column
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model.spec import labels, predictions
from monolith.observe.messages import MessageSink
from monolith.tensors import Ragged

DEFAULT_SAMPLE_RATIO = 0.01

_log = logging.getLogger(__name__)


class DeepInsightHook(Hook):
    """Sends labels and predictions of a share of the events, chosen by user and time of the request.

    The same event is always chosen or never, in every run and by every model, so that models can be compared. A
    message is a JSON object: model_name, targets, uid, req_time, train_time, labels, preds, sample_rates (one per
    target, from the column `sample_rate`, 1 without it), and further columns under extra_float, extra_int and
    extra_str. Events without the columns `uid` and `req_time` cannot be chosen: then nothing is sent, and a line of
    the log says so.
    """

    def __init__(
        self,
        sink: MessageSink,
        *,
        model_name: str,
        targets: Sequence[str] | None = None,
        sample_ratio: float = DEFAULT_SAMPLE_RATIO,
        extra_fields: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take the receiver of messages, which the hook closes at the end; `targets` are heads, by default all."""
        if not 0 <= sample_ratio <= 1:
            raise ValueError(f"DeepInsightHook: sample_ratio must be 0 to 1, got {sample_ratio}")
        self._sink = sink
        self._model_name = model_name
        self._targets = None if targets is None else list(targets)
        self._sample_ratio = sample_ratio
        self._extra_fields = [name for name in extra_fields if name != "uid"]
        self._clock = clock
        self._silent = False

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Send the messages of a batch."""
        if self._silent or values.batch is None or values.spec is None:
            return
        batch: Batch = values.batch
        missing = [name for name in ("uid", "req_time") if not isinstance(batch.columns.get(name), Tensor)]
        if missing:
            self._silent = True
            _log.warning("no predictions are sent: the events have no column %s of one id each", " and ".join(missing))
            return
        uid, req_time = (_array(batch, name) for name in ("uid", "req_time"))
        chosen = np.flatnonzero(is_sampled(uid, req_time, self._sample_ratio))
        if not len(chosen):
            return
        heads = self._heads(values.spec)
        rates = _array(batch, "sample_rate") if isinstance(batch.columns.get("sample_rate"), Tensor) else None
        extra = self._extra(batch)
        for event in chosen.tolist():
            rate = 1.0 if rates is None else float(rates[event])
            message = {
                "model_name": self._model_name,
                "targets": list(heads),
                "uid": int(uid[event]),
                "req_time": int(req_time[event]),
                "train_time": int(self._clock()),
                "labels": [_finite(label, event) for label, _ in heads.values()],
                "preds": [_finite(pred, event) for _, pred in heads.values()],
                "sample_rates": [rate] * len(heads),
                **{kind: {name: read(event) for name, read in found.items()} for kind, found in extra.items()},
            }
            self._sink.send(json.dumps(message))

    def end(self, context: RunContext) -> None:
        """Close the sink."""
        self._sink.close()

    def _heads(self, spec: Any) -> dict[str, tuple[NDArray[Any] | None, NDArray[Any]]]:
        observed, predicted = labels(spec), predictions(spec)
        targets = list(predicted) if self._targets is None else self._targets
        unknown = [name for name in targets if name not in predicted]
        if unknown:
            raise ValueError(f"deep insight: there is no head {unknown[0]!r}; the model has {', '.join(predicted)}")
        return {
            name: (None if name not in observed else _flat(observed[name]), _flat(predicted[name])) for name in targets
        }

    def _extra(self, batch: Batch) -> Mapping[str, dict[str, Callable[[int], Any]]]:
        found: dict[str, dict[str, Callable[[int], Any]]] = {}
        for name in self._extra_fields:
            column = batch.columns.get(name)
            if column is None:
                raise ValueError(f"deep insight: the events have no column {name!r}, only {', '.join(batch.columns)}")
            kind, read = _reader(column)
            found.setdefault(kind, {})[name] = read
        return found


def is_sampled(uid: NDArray[Any], req_time: NDArray[Any], ratio: float) -> NDArray[np.bool_]:
    """Return which events are in the sample; the same events are in it everywhere, and in every larger sample.

    >>> is_sampled(np.arange(1000), np.full(1000, 1_700_000_000), 0.1).sum() in range(60, 140)
    True
    """
    mixed = _mix(_mix(uid.astype(np.int64).view(np.uint64)) ^ req_time.astype(np.int64).view(np.uint64))
    # 53 bits: what a float64 holds exactly, so that a ratio of 1 takes all.
    share: NDArray[np.float64] = (mixed >> np.uint64(11)).astype(np.float64) / float(1 << 53)
    return share < ratio


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well-spread bits of each value, as the output step of SplitMix64 makes them."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _array(batch: Batch, name: str) -> NDArray[Any]:
    column = batch.columns[name]
    assert isinstance(column, Tensor)
    if column.dim() != 1:
        raise ValueError(f"deep insight: column {name!r} must have one value per event, got {tuple(column.shape)}")
    return column.numpy()


def _flat(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.detach().float().reshape(len(values), -1)[:, 0].cpu().numpy()
    return array


def _finite(values: NDArray[Any] | None, event: int) -> float | None:
    """Return a number that JSON can hold; None stands for a missing one, and for one that is not finite."""
    if values is None or not math.isfinite(values[event]):
        return None
    return float(values[event])


def _reader(column: Column) -> tuple[str, Callable[[int], Any]]:
    """Return the kind of a column and how to read an event of it: floats, ints, or the text of its bytes."""
    if isinstance(column, Ragged):
        if column.values.dtype.itemsize == 1:
            return "extra_str", lambda event: _row(column, event).numpy().tobytes().decode(errors="replace")
        kind = "extra_float" if column.values.is_floating_point() else "extra_int"
        return kind, lambda event: _row(column, event).tolist()
    return "extra_float" if column.is_floating_point() else "extra_int", lambda event: column[event].tolist()


def _row(column: Ragged, event: int) -> Tensor:
    return column.values[int(column.row_splits[event]) : int(column.row_splits[event + 1])]
