"""Train, evaluate and ask a field-aware factorization machine: python examples/ffm.py.

The model is of the lower kind: a task that makes its own feature slots and applies its own gradients. Its 64 events are
made up so that no id says anything by itself; only pairs of ids do.
"""

import argparse
import tempfile
from pathlib import Path

import torch

import monolith as mono
from monolith.model.zoo.ffm import FFMParams


def main(folder: Path, steps: int) -> dict[str, float]:
    """Train for some steps, evaluate what came out, and predict every event once."""
    torch.set_num_threads(1)  # the batches are small: a second thread would mostly wait
    estimator = mono.Estimator(FFMParams().task(), mono.RunConfig(model_dir=folder, log_step_count_steps=0))
    estimator.train(steps=1)
    before = estimator.evaluate(steps=1)
    trained = estimator.train(max_steps=steps)
    after = estimator.evaluate(steps=1)
    print(f"after 1 step: loss {before['loss']:.2f} of 64 events, AUC {before['auc']:.3f}")
    print(f"after {trained.global_step} steps: loss {after['loss']:.2f}, AUC {after['auc']:.3f}")
    predictions = torch.stack([one["pred"] for one in estimator.predict()])
    print(f"{len(predictions)} predictions, from {predictions.min():.3f} to {predictions.max():.3f}")
    print(f"snapshot: {estimator.latest_checkpoint()}")
    return after


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where the model lives; by default a new temporary folder")
    arguments = parser.parse_args()
    main(arguments.folder or Path(tempfile.mkdtemp(prefix="ffm_")), arguments.steps)
