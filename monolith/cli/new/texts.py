"""The files of a new project, as they are written."""

RANKING_PY = '''\
"""The model: how likely a user likes a movie."""

import torch
from torch import nn

import monolith as mono
from events import read_events
from monolith.embedding import AdagradOptimizer

DIM = 8


class Ranking(mono.MonolithModel):
    """A row per user and per movie, and a small net on top."""

    def __init__(self, params=None):
        super().__init__(params)
        rows = AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.1)
        self.create_embedding_feature_column("user", optimizer=rows)
        self.create_embedding_feature_column("movie", optimizer=rows)
        self.tower = nn.Sequential(nn.Linear(3 * DIM, 16), nn.ReLU(), nn.Linear(16, 1))
        # Made last: it must know every layer.
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.02)

    def input_fn(self, mode):
        """Return where events come from."""
        return read_events(mode)

    def model_fn(self, features, mode):
        """Return predictions, and a loss unless only predictions are wanted."""
        user, movie = self.lookup_embedding_slice(["user", "movie"], slice_name="vec", slice_dim=DIM)
        logit = self.tower(torch.cat([user, movie, user * movie], dim=1)).squeeze(1)
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        liked = features["liked"]
        # A sum, not a mean: how far a row moves should not depend on the other events of the batch.
        loss = nn.functional.binary_cross_entropy_with_logits(logit, liked, reduction="sum")
        return mono.EstimatorSpec(label=liked, pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)
'''

EVENTS_PY = '''\
"""The data: CSV files with a line per event."""

import monolith as mono

IDS = {"user": "int64", "movie": "int64"}


def read_events(mode):
    """Return the events to train on, to evaluate on, or to predict."""
    if mode == mono.PREDICT:
        return mono.data.csv("data/ask.csv", **IDS)
    if mode == mono.EVAL:
        return mono.data.csv("data/eval.csv", **IDS, liked="float32")
    return mono.data.csv("data/train.csv", batch_size=128, **IDS, liked="float32").repeat(3)
'''

README_MD = """\
# A ranking model

| file | what it is |
|---|---|
| `ranking.py` | the model: a row per user and per movie, and a small net |
| `events.py` | the data reader |
| `data/` | made-up events, a line each; put your own here |

CSV files need `pip install 'monolith-recsys[columnar]'`. Exports and the server need
`pip install 'monolith-recsys[serving]'`.

Train. Run it again to continue where it stopped; delete `trained` to start anew:

```sh
monolith train ranking:Ranking --model-dir trained
```

Evaluate on events the model has not seen:

```sh
monolith evaluate ranking:Ranking --model-dir trained
```

Look at the row of movie 3, and predict the events of `data/ask.csv`:

```sh
monolith row trained movie 3
monolith predict ranking:Ranking --model-dir trained
```

Export, and serve the newest export:

```sh
monolith export ranking:Ranking --model-dir trained
monolith serve trained/exported_models --port 8500 &
```

Ask the server for the same predictions:

```sh
curl --silent --retry 30 --retry-connrefused http://127.0.0.1:8500/v1/models/ranking:predict \\
  --data '{"instances": [INSTANCES]}'
```

`monolith COMMAND --help` shows what a command can do.
"""
