"""A run in a process of its own, which tells each step as it is done."""

import threading

import torch

import monolith as mono
from tests.model.movie_model import MovieRanking
from tests.train.recorder import Recorder


class Report(Recorder):
    """Sends step, loss and events of each step; after `holds_after` of them it waits to be killed."""

    def __init__(self, pipe, holds_after):
        super().__init__()
        self.pipe, self.holds_after = pipe, holds_after

    def after_run(self, context, values):
        super().after_run(context, values)
        self.pipe.send([values.step, values.loss, values.first, values.last])
        if len(self.losses) == self.holds_after:
            threading.Event().wait()


def train_and_report(pipe, model_dir, params, holds_after):
    """Train to the end, then send the rows."""
    torch.set_num_threads(1)
    hook = Report(pipe, holds_after)
    config = mono.RunConfig(model_dir=model_dir, save_checkpoints_steps=3, log_step_count_steps=0)
    mono.Estimator(MovieRanking, config, params=params).train(hooks=[hook])
    pipe.send(hook.rows)
