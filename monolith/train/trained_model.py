"""A trained model to look at: its rows and weights of one snapshot, evaluated or asked, never changed."""

import copy
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from monolith import export
from monolith.checkpoint import load_dense_only, load_snapshot, restore_dense_weights
from monolith.checkpoint.format.manifest import read_manifest
from monolith.checkpoint.format.state_files.path_forms import is_remote
from monolith.checkpoint.keep import choose_snapshot, fetched_checkpoint
from monolith.checkpoint.keep.rollback import LOOK
from monolith.data import Batch, Schema, Source
from monolith.data.progress import share_read
from monolith.embedding import MultiTable
from monolith.export.warm_up.made_requests import WarmUpRequest
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model import EstimatorSpec, Lookup, LookupPlan, Mode, MonolithModel, make_tables, run_dense
from monolith.model.metrics import Calibration, GroupedAuc, StreamingAuc, StreamingMean, StreamingMse, logloss
from monolith.model.spec import observations, predictions
from monolith.train.state import RestoreConfig


class TrainedModel:
    """A copy of a model with the rows and weights of a snapshot."""

    def __init__(
        self,
        model: MonolithModel,
        path: str | os.PathLike[str],
        options: RestoreConfig | None = None,
        tables: MultiTable | None = None,
    ) -> None:
        """Read the snapshot in folder `path`; the plan is the one it was trained with, with the model's names.

        `options` name renamed dense weights, and say whether to leave out rows that are not finite. `tables` have the
        snapshot's rows already, elsewhere.
        """
        options = options or RestoreConfig()
        folder = Path(path)
        manifest = read_manifest(folder)
        columns = model.feature_columns
        older = {name: one.extra_restore_names for name, one in columns.items() if one.shared_name is None}
        self.plan = LookupPlan.from_json(manifest.plan).renamed(older, columns)
        if tables is None:
            tables = make_tables(self.plan)
            dense = load_snapshot(folder, plan=self.plan, tables=tables, drop_not_finite=options.drop_not_finite).dense
        else:
            dense = load_dense_only(folder)
        self.tables = tables
        self.model = copy.deepcopy(model)
        restore_dense_weights(self.model, dense, alias_map=options.alias_map, guess_names=options.guess_names)
        self.model.eval()
        self.global_step = manifest.step
        self.generation = manifest.generation
        self._lookup = Lookup(self.plan, self.tables)

    def run(self, batch: Batch, mode: Mode) -> EstimatorSpec:
        """Return what the model says about a batch."""
        with torch.no_grad():
            slices = self._lookup.pull(batch.columns, requires_grad=False).slices
            return run_dense(self.model, slices, batch.columns, mode)

    def evaluate(
        self, source: Source, *, steps: int | None = None, group_by: str | None = None, hooks: Sequence[Hook] = ()
    ) -> dict[str, float]:
        """Return loss and metrics over `steps` batches, or all there are; see `Estimator.evaluate`."""
        metrics = _Metrics(group_by)
        for batch, spec in self._watched(source, Mode.EVAL, steps, hooks):
            metrics.add(spec, batch)
        return {**metrics.read(), "global_step": float(self.global_step)}

    def predict(
        self, source: Source, *, keys: Sequence[str] | None = None, hooks: Sequence[Hook] = ()
    ) -> Iterator[dict[str, Tensor]]:
        """Yield the predictions of each batch by head."""
        for _, spec in self._watched(source, Mode.PREDICT, None, hooks):
            found = predictions(spec)
            unknown = [key for key in keys or () if key not in found]
            if unknown:
                raise KeyError(f"there is no prediction {unknown[0]!r}; the model predicts {', '.join(found)}")
            yield {key: found[key] for key in keys or found}

    def export(
        self,
        base: Path,
        schema: Schema,
        *,
        name: str,
        num_shards: int | None = None,
        dense_only: bool = False,
        version: int | None = None,
        warm_up: Sequence[WarmUpRequest] | None = None,
    ) -> Path:
        """Write a version into `base` and return it; its requests have the columns of `schema`.

        With `num_shards`, it is of the distributed layout. With `dense_only`, it shares the rows of the newest version.
        """
        made = export.Export(
            model=self.model,
            plan=self.plan,
            tables=export.RowsOfVersion(export.newest_export(base)) if dense_only else self.tables,
            num_shards=num_shards,
            schema=schema,
            generation=self.generation,
            sequence=0,
            global_step=self.global_step,
            name=name,
            warm_up=warm_up,
        )
        return export.write_export(base, export.next_version(base) if version is None else version, made)

    def variables(self) -> dict[str, Tensor]:
        """Return the dense weights and buffers by name, and "global_step"; a model's own of that name comes first."""
        return {"global_step": torch.tensor(self.global_step), **self.model.state_dict()}

    def _watched(
        self, source: Source, mode: Mode, steps: int | None, hooks: Sequence[Hook]
    ) -> Iterator[tuple[Batch, EstimatorSpec]]:
        """Yield what the model says about each batch, while hooks watch."""
        context = self._context()
        context.read_share = lambda: _share(source, steps, context.num_steps)
        for hook in hooks:
            hook.begin()
        try:
            for hook in hooks:
                hook.after_create_session(context)
            for batch in self._batches(source, steps, context):
                for hook in hooks:
                    hook.before_run(context)
                spec = self.run(batch, mode)
                yield batch, spec
                values = StepValues(
                    step=context.num_steps,
                    loss=float("nan") if spec.loss is None else float(spec.loss),
                    num_events=len(batch),
                    partition=batch.partition,
                    first=batch.first,
                    last=batch.last,
                    spec=spec,
                    batch=batch,
                )
                context.num_steps += 1
                for hook in hooks:
                    hook.after_run(context, values)
        except Exception as error:
            context.error = error
            raise
        finally:
            for hook in hooks:
                hook.end(context)

    def _batches(self, source: Source, steps: int | None, context: RunContext) -> Iterator[Batch]:
        if steps == 0:
            return
        for number, batch in enumerate(source, 1):
            yield batch
            if number == steps or context.stop_requested:
                return

    def _context(self) -> RunContext:
        return RunContext(model=self.model, tables=self.tables, global_step=self.global_step)


def _share(source: Source, steps: int | None, number: int) -> float | None:
    """Return how much is done: of the batches to look at, or of the data if that ends first."""
    found = [share_read(source), number / steps if steps else None]
    return max((share for share in found if share is not None), default=None)


def open_trained(
    model: MonolithModel,
    model_dir: Path,
    config: RestoreConfig | None = None,
    checkpoint_path: str | os.PathLike[str] | None = None,
) -> TrainedModel:
    """Return the model of a snapshot: the one in folder `checkpoint_path`, or the one that `config` selects.

    `config` selects `restore_ckpt` or the newest one in `model_dir`, else in `restore_dir`, a folder or a URL. Nothing
    is written.
    """
    config = config or RestoreConfig()
    if checkpoint_path is not None:
        return TrainedModel(model, checkpoint_path, config)
    if config.restore_dir and is_remote(config.restore_dir):
        path = choose_snapshot(model_dir, restore_ckpt=config.restore_ckpt, mode=LOOK)
        if path is None:
            with (
                TemporaryDirectory() as folder,
                fetched_checkpoint(config.restore_dir, Path(folder), config.restore_ckpt) as fetched,
            ):
                return TrainedModel(model, fetched, config)
    return TrainedModel(model, snapshot_to_look_at(model_dir, config), config)


def snapshot_to_look_at(
    model_dir: Path, config: RestoreConfig, checkpoint_path: str | os.PathLike[str] | None = None
) -> Path:
    """Return the folder of the snapshot on this disk that `open_trained` opens."""
    if checkpoint_path is not None:
        return Path(checkpoint_path)
    path = choose_snapshot(model_dir, restore_ckpt=config.restore_ckpt, mode=LOOK)
    if path is None and config.restore_dir:
        path = choose_snapshot(config.restore_dir, restore_ckpt=config.restore_ckpt, mode=LOOK)
    if path is None:
        elsewhere = f" nor in {config.restore_dir}" if config.restore_dir else ""
        raise FileNotFoundError(f"there is no snapshot in {model_dir}{elsewhere}; train the model first")
    return path


@dataclass
class _Head:
    auc: StreamingAuc = field(default_factory=StreamingAuc)
    calibration: Calibration = field(default_factory=Calibration)
    logloss: StreamingMean = field(default_factory=StreamingMean)
    mse: StreamingMse = field(default_factory=StreamingMse)
    grouped: GroupedAuc = field(default_factory=GroupedAuc)


class _Metrics:
    """Loss and, per head, AUC, log loss and calibration of a classification or MSE of a regression."""

    def __init__(self, group_by: str | None) -> None:
        self._group_by = group_by
        self._loss = StreamingMean()
        self._heads: dict[str, _Head] = {}
        self._classification = True
        self._num_events = 0

    def add(self, spec: EstimatorSpec, batch: Batch) -> None:
        self._num_events += len(batch)
        self._classification = spec.classification
        if spec.loss is not None:
            self._loss.add(float(spec.loss))
        groups = self._groups(batch)
        for name, scores, labels, kept in observations(spec):
            head = self._heads.setdefault(name, _Head())
            if not spec.classification:
                head.mse.add_batch(scores, labels)
                continue
            head.auc.add(scores, labels)
            if len(scores):
                head.logloss.add(logloss(scores, labels), weight=len(scores))
            head.calibration.add(scores, labels)
            if groups is not None:
                head.grouped.add(scores, labels, groups[kept])

    def read(self) -> dict[str, float]:
        found = {"loss": self._loss.value(), "num_events": float(self._num_events)}
        for name, head in self._heads.items():
            prefix = "" if len(self._heads) == 1 else f"{name}_"
            if not self._classification:
                found[f"{prefix}mse"] = head.mse.value()
                continue
            measures: dict[str, Any] = {"auc": head.auc, "logloss": head.logloss, "calibration": head.calibration}
            found |= {f"{prefix}{measure}": one.value() for measure, one in measures.items()}
            if self._group_by is not None:
                found[f"{prefix}auc_by_{self._group_by}"] = head.grouped.value()
        return found

    def _groups(self, batch: Batch) -> Tensor | None:
        if self._group_by is None:
            return None
        groups: Any = batch.columns.get(self._group_by)
        if not isinstance(groups, Tensor) or groups.dim() != 1 or groups.is_floating_point():
            raise ValueError(
                f"group_by={self._group_by!r} must name a column of one id per event; the batch has "
                f"{', '.join(batch.columns)}"
            )
        return groups
