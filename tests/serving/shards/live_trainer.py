"""A trainer that goes on until a file appears: `python -m tests.serving.shards.live_trainer FOLDER TARGET...`."""

import sys
import time
from pathlib import Path

import torch
from torch import nn

import monolith as mono
from monolith.hooks import Hook
from monolith.train.config import RunnerConfig

NUM_IDS, NUM_EVENTS, NUM_SHARDS = 400, 400_000, 2


class Clicks(mono.MonolithModel):
    def __init__(self, params=None):
        super().__init__(params)
        self.tower = nn.Linear(8, 1)
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.05)

    def input_fn(self, mode):
        generator = torch.Generator().manual_seed(1)
        columns = {name: torch.randint(0, NUM_IDS, (NUM_EVENTS,), generator=generator) for name in ("uid", "mov")}
        label = torch.randint(0, 2, (NUM_EVENTS,), generator=generator).float()
        return mono.data.arrays({**columns, "label": label}, batch_size=16)

    def model_fn(self, features, mode):
        user, movie = self.lookup_embedding_slice(["uid", "mov"], slice_dim=4)
        logit = self.tower(torch.cat([user, movie], dim=1)).squeeze(1)
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"])
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


class UntilFile(Hook):
    """Stops the run when a file appears; until then, steps are slow enough to leave the machine to the others."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def after_run(self, context, values) -> None:
        time.sleep(0.02)
        if self._file.exists():
            context.request_stop()


def main() -> None:
    folder, targets = Path(sys.argv[1]), sys.argv[2:]
    config = RunnerConfig(
        model_dir=folder / "model",
        export_base=str(folder / "base"),
        base_name="movie",
        export_mode="distributed",
        export_num_shards=NUM_SHARDS,
        export_every_seconds=8.0,
        exports_max_to_keep=2,
        save_checkpoints_steps=100,
        sync_targets=targets,
        sync_every_seconds=0.5,
        log_step_count_steps=0,
        save_summary_steps=0,
    )
    mono.Estimator(Clicks, config).train(hooks=[UntilFile(folder / "stop")])


if __name__ == "__main__":
    main()
