"""Write tests/golden/zoo_losses.json, the first losses of every model of the zoo on made-up events.

    python tools/zoo_losses.py

tests/model/zoo/test_golden_losses.py compares against it: a change of arithmetic shows there before it shows in a
metric. Run this only when a change is meant to change what models learn, and say in the commit why the losses moved;
the differences to the file before are printed.
"""

import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

import monolith as mono
from monolith.data import CriteoEvents, MovieEvents, Source, synthetic
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model.hyper_params import InstantiableParams
from monolith.model.zoo.click_model import ClickModel
from monolith.model.zoo.dcn_v2 import DCNv2
from monolith.model.zoo.deepfm import DeepFM
from monolith.model.zoo.dlrm import DLRM
from monolith.model.zoo.ffm import FFMParams
from monolith.model.zoo.movie_ranking import MovieRanking
from monolith.model.zoo.multi_head import MultiHead, with_conversions

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "zoo_losses.json"
NUM_STEPS, BATCH_SIZE = 20, 128


class _Movies(MovieRanking):
    """Movies whose tastes do not drift."""

    def input_fn(self, mode: mono.Mode) -> Source:
        """Return made-up events."""
        return synthetic(MovieEvents(0, users=200, movies=100, drift_seconds=math.inf), batch_size=BATCH_SIZE)


def _clicks(mode: mono.Mode) -> Source:
    world = CriteoEvents(0, num_ids=1000, new_ids_per_second=0, drift_seconds=math.inf, click_bias=-0.5)
    return synthetic(world, batch_size=BATCH_SIZE)


def _conversions(mode: mono.Mode) -> Source:
    return with_conversions(synthetic(CriteoEvents(0, num_ids=1000, drift_seconds=math.inf), batch_size=BATCH_SIZE))


def _small(model: type[ClickModel], source: Callable[[mono.Mode], Source] = _clicks) -> InstantiableParams:
    params = model.params()
    params.set(dim=8, hidden=(32, 16), source=source)
    return params


MODELS: dict[str, Callable[[], type[mono.MonolithModel] | InstantiableParams]] = {
    "MovieRanking": lambda: _Movies,
    "DeepFM": lambda: _small(DeepFM),
    "DLRM": lambda: _small(DLRM),
    "DCNv2": lambda: _small(DCNv2),
    "MultiHead": lambda: _small(MultiHead, _conversions),
    "FFM": lambda: FFMParams().task(),
}
"""Every model of the zoo, small, with its source."""


class _Losses(Hook):
    """Keeps the loss of every step."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Keep one more."""
        self.seen.append(values.loss)


def first_losses(name: str, *, fused_layout: bool = False) -> list[float]:
    """Return the losses of a model's first steps: seed 0, one thread."""
    threads, losses = torch.get_num_threads(), _Losses()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory(prefix="zoo_losses_") as folder:
            config = mono.RunConfig(model_dir=folder, log_step_count_steps=0, enable_fused_layout=fused_layout)
            mono.Estimator(MODELS[name](), config).train(max_steps=NUM_STEPS, hooks=[losses])
    finally:
        torch.set_num_threads(threads)
    return losses.seen


def main() -> None:
    """Write the file and print by how much each model's losses moved."""
    before = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    found = {name: [float(f"{loss:.7g}") for loss in first_losses(name)] for name in MODELS}
    lines = [f'  "{name}": {json.dumps(losses)}' for name, losses in found.items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for name, losses in found.items():
        old = before.get(name)
        moved = "new" if old is None else f"{max(abs(a / b - 1) for a, b in zip(losses, old, strict=True)):.1e} moved"
        print(f"{name:>12}: {losses[0]:.1f} to {losses[-1]:.1f}, {moved}")


if __name__ == "__main__":
    main()
