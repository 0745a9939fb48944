"""Metrics of predictions made before their events were trained on."""

from collections.abc import Mapping

from torch import Tensor

from monolith.errors import CorruptFileError
from monolith.model.metrics import PredictionWindow
from monolith.model.spec import EstimatorSpec, observations

_PREFIX = "metrics/"


class ProgressiveMetrics:
    """AUC and log loss of the newest predictions, per head; a model with one head has plain "auc" and "logloss"."""

    def __init__(self, window: int) -> None:
        """Make empty windows of this many predictions."""
        self._window = window
        self._heads: dict[str, PredictionWindow] = {}

    def add(self, spec: EstimatorSpec) -> None:
        """Take the predictions of a batch; those of a regression or without a label are left out."""
        if not spec.classification:
            return
        for head, scores, labels, _ in observations(spec):
            self._heads.setdefault(head, PredictionWindow(self._window)).add(scores, labels)

    def read(self) -> dict[str, float]:
        """Return the metrics by name; computed now, in milliseconds."""
        single = len(self._heads) == 1
        metrics: dict[str, float] = {}
        for head, window in self._heads.items():
            prefix = "" if single else f"{head}_"
            metrics |= {f"{prefix}auc": window.auc(), f"{prefix}logloss": window.logloss()}
        return metrics

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of the windows by names of their own, for a snapshot."""
        return {
            f"{_PREFIX}{head}/{name}": tensor
            for head, window in self._heads.items()
            for name, tensor in window.tensors().items()
        }

    @staticmethod
    def among(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return those of a snapshot's tensors that `tensors` made."""
        return {name: tensor for name, tensor in tensors.items() if name.startswith(_PREFIX)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue the windows found in a snapshot's tensors; a CorruptFileError if they cannot be read."""
        heads: dict[str, dict[str, Tensor]] = {}
        for name, tensor in self.among(tensors).items():
            head, _, part = name.removeprefix(_PREFIX).rpartition("/")
            heads.setdefault(head, {})[part] = tensor
        for head, parts in heads.items():
            window = PredictionWindow(self._window)
            try:
                window.restore(parts)
            except CorruptFileError as error:
                raise CorruptFileError(f"head {head[:40]!r}: {error}") from error
            self._heads[head] = window
