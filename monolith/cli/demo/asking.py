"""Questions to the server, and to a copy of the model that stopped learning."""

import http.client
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from monolith.export import ServingModel
from monolith.launch.movie_stream import PROBE_MOVIE, UNSEEN_USER
from monolith.model.metrics import PredictionWindow

MODEL_NAME = "movie"
WINDOW = 20_000
"""AUC covers this many predictions."""


class ServerClient:
    """Asks one server over HTTP; for use by one thread."""

    def __init__(self, host: str, port: int) -> None:
        """Prepare; the connection is made with the first question."""
        self._connection = http.client.HTTPConnection(host, port, timeout=10)

    def infer(self, users: Sequence[int], movies: Sequence[int]) -> list[float]:
        """Return how likely each user likes each movie."""
        columns = {"uid": users, "mov": movies}
        inputs = [
            {"name": name, "shape": [len(values)], "datatype": "INT64", "data": list(values)}
            for name, values in columns.items()
        ]
        body = json.dumps({"inputs": inputs})
        try:
            self._connection.request("POST", f"/v2/models/{MODEL_NAME}/infer", body)
            response = self._connection.getresponse()
            answer = json.loads(response.read())
        except (http.client.HTTPException, OSError) as error:
            self._connection.close()
            raise OSError(f"the server does not answer: {str(error) or type(error).__name__}") from error
        if response.status != 200:
            raise ValueError(f"the server answered {response.status}: {answer.get('error')}")
        data: list[float] = answer["outputs"][0]["data"]
        return data

    def knows_probe(self, user: int) -> bool:
        """Return whether the answer for a user differs from that for one nobody has ever seen."""
        probe, unseen = self.infer([user, UNSEEN_USER], [PROBE_MOVIE, PROBE_MOVIE])
        return probe != unseen

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Comparison:
    """How well the live model and the frozen copy predict the same events, none of which had happened yet."""

    def __init__(self, client: ServerClient, frozen: ServingModel) -> None:
        """Begin with no predictions."""
        self._client = client
        self._frozen = frozen
        self._windows = {"live": PredictionWindow(WINDOW), "frozen": PredictionWindow(WINDOW)}
        self.answer_seconds: list[float] = []
        self.num_predictions = 0

    def ask(self, events: dict[str, np.ndarray[Any, Any]]) -> None:
        """Ask both for these events."""
        users, movies, labels = events["uid"], events["mov"], torch.from_numpy(events["label"])
        began = time.perf_counter()
        live = self._client.infer(users.tolist(), movies.tolist())
        self.answer_seconds.append(time.perf_counter() - began)
        (frozen,) = self._frozen.predict({"uid": users, "mov": movies}).values()
        self._windows["live"].add(torch.tensor(live), labels)
        self._windows["frozen"].add(torch.from_numpy(np.array(frozen)), labels)
        self.num_predictions += len(live)

    def auc(self, name: str) -> float:
        """Return the AUC of "live" or "frozen"."""
        return self._windows[name].auc()


class FreshnessMeter:
    """Time from the append of an event to the first served prediction that reflects it."""

    def __init__(self) -> None:
        """Begin with no probes."""
        self.seconds: list[float] = []
        self._waiting: dict[int, float] = {}

    def expect(self, user: int, appended: float) -> None:
        """Wait for a probe."""
        self._waiting[user] = appended

    def ask(self, client: ServerClient) -> None:
        """Ask for the oldest probe that is not served yet; those behind it cannot be served either."""
        while self._waiting:
            user, appended = next(iter(self._waiting.items()))
            if not client.knows_probe(user):
                return
            self.seconds.append(time.time() - appended)
            del self._waiting[user]

    def quantile(self, share: float) -> float:
        """Return the freshness that this share of the probes had or beat; NaN without probes."""
        return float(np.quantile(self.seconds, share)) if self.seconds else float("nan")
