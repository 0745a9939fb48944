"""Metrics of predictions made before their events were trained on."""

from monolith.model.metrics import PredictionWindow
from monolith.model.spec import EstimatorSpec, observations


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
