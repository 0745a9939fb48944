"""A run in a process of its own, which tells each step as it is done."""

import torch

import monolith as mono
from tests.model.movie_model import MovieRanking
from tests.train.recorder import Recorder


class Report(Recorder):
    """Sends step, loss and events of each step."""

    def __init__(self, pipe):
        super().__init__()
        self.pipe = pipe

    def after_run(self, context, values):
        super().after_run(context, values)
        self.pipe.send([values.step, values.loss, values.first, values.last])


def train_and_report(pipe, model_dir, params):
    """Train to the end, then send the rows."""
    torch.set_num_threads(1)
    hook = Report(pipe)
    config = mono.RunConfig(model_dir=model_dir, save_checkpoints_steps=3, log_step_count_steps=0)
    mono.Estimator(MovieRanking, config, params=params).train(hooks=[hook])
    pipe.send(hook.rows)
