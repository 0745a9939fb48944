"""Ranks with their rows on a parameter server that has more memory in use than it may: rank 0 says so."""

import logging
import os
import threading

import monolith as mono
from tests.patience import PATIENCE_SECONDS
from tests.train.ranks.mixed_job import MIXED, serve, servers
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, config_of

ALERT = "check_interval_sec: 1"
ONE_SERVER = {**MIXED, "num_ps": 1}


class Listens(logging.Handler, mono.Hook):
    """Holds the first step up until a warning has come that says all of `words`."""

    def __init__(self, *words):
        super().__init__(logging.WARNING)
        self.words, self.found, self.lines = words, threading.Event(), []

    def emit(self, record):
        self.lines.append(record.getMessage())
        if all(any(word in line for line in self.lines) for word in self.words):
            self.found.set()

    def before_run(self, context):
        assert self.found.wait(PATIENCE_SECONDS), self.lines


def train_and_listen(folder):
    words = ("is not well: Memory limit exceeded.", "alert (servers) for nobody") if os.environ["RANK"] == "0" else ()
    listens = Listens(*words)
    logging.getLogger().addHandler(listens)
    config = config_of(folder, **ONE_SERVER, monolith_alert_proto=ALERT)
    model = mono.Estimator(Rated, config, params={"num_ranks": 2, "batches_together": 1})
    result = model.train(hooks=[listens] if words else [])
    return result.global_step, [line for line in listens.lines if "not well" in line]


def serve_in_little_memory(folder, index):
    changes = {**ONE_SERVER, "monolith_default_machine_info_mem_limit": 1, "monolith_alert_proto": ALERT}
    serve(folder, 2, index, changes=changes)


def test_rank_0_says_that_a_server_is_not_well(tmp_path):
    with servers(serve_in_little_memory, tmp_path, count=1), Ranks(2, train_and_listen, tmp_path) as ranks:
        (first, said), (second, said_by_others) = ranks.results()
    assert first == second == STEPS
    assert sum(one.startswith("parameter server 0 (127.0.0.1:") for one in said) == 1
    assert said_by_others == []
