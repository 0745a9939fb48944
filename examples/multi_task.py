"""Two questions about one ad, answered by one model: python examples/multi_task.py.

Will it be clicked, and will the click convert? A head for each reads a mixture of experts that both share. Label and
prediction are dicts with an entry per head, and every metric comes once per head.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import monolith as mono
from monolith.data import CriteoEvents, Pipeline, synthetic
from monolith.model.layers import MMoE
from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE
from monolith.model.zoo.multi_head import with_conversions

DIM, BATCH, HEADS = 8, 256, {"click": "label", "convert": "convert"}


class ClickAndConvert(mono.MonolithModel):
    """Four experts, and a gate and a net per head; `params` is the number of events to train on."""

    def __init__(self, params: int) -> None:
        super().__init__(params)
        self.experts = MMoE(len(HEADS), [32, 16], num_experts=4)
        self.experts(torch.zeros(2, len(CATEGORIES) * DIM + NUM_DENSE))  # its weights get their shape from an input
        self.nets = nn.ModuleDict({head: nn.Linear(16, 1) for head in HEADS})
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.02)

    def input_fn(self, mode: mono.Mode) -> Pipeline:
        """Return made-up clicks, about a third of which convert; those to test on follow those to train on."""
        world = CriteoEvents(0, num_ids=10_000, new_ids_per_second=0, drift_seconds=float("inf"), click_bias=-0.5)
        events = synthetic(world, batch_size=BATCH, count=self.params if mode == mono.TRAIN else 2 * self.params)
        if mode != mono.TRAIN:
            events.restore({"row": self.params})
        return with_conversions(events)

    def model_fn(self, features: dict[str, Tensor], mode: mono.Mode) -> mono.EstimatorSpec:
        """Return the chance of a click and of a conversion."""
        rows = self.lookup_embedding_slice(CATEGORIES, slice_name="vec", slice_dim=DIM, out_type="concat")
        mixed = self.experts(torch.cat([rows, features["dense"]], dim=1))
        logits = {head: self.nets[head](part.relu()).squeeze(1) for head, part in zip(HEADS, mixed, strict=True)}
        pred = {head: logit.sigmoid() for head, logit in logits.items()}
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=pred)
        label = {head: features[column] for head, column in HEADS.items()}
        lost = nn.functional.binary_cross_entropy_with_logits
        losses = [lost(logits[head], label[head], reduction="sum") for head in HEADS]
        return mono.EstimatorSpec(label=label, pred=pred, loss=torch.stack(losses).sum(), optimizer=self.optimizer)


def main(folder: Path, num_events: int) -> dict[str, float]:
    """Train, test both heads, and show a few predictions."""
    torch.set_num_threads(1)  # the batches are small: a second thread would mostly wait
    config = mono.RunConfig(model_dir=folder, log_step_count_steps=0)
    estimator = mono.Estimator(ClickAndConvert, config, params=num_events)
    trained = estimator.train()
    tested = estimator.evaluate()
    print(f"{trained.global_step:,} steps on {num_events:,} events, then tested on {tested['num_events']:,.0f} others")
    for head in HEADS:
        print(f"{head:>8}: AUC {tested[f'{head}_auc']:.3f}, calibration {tested[f'{head}_calibration']:.2f}")
    for _, one in zip(range(3), estimator.predict(), strict=False):
        print(", ".join(f"{head} {float(chance):.2f}" for head, chance in one.items()))
    return tested


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="events to train on, and as many to test on")
    parser.add_argument("--folder", type=Path, help="where the model lives; by default a new temporary folder")
    arguments = parser.parse_args()
    main(arguments.folder or Path(tempfile.mkdtemp(prefix="multi_task_")), arguments.events)
