"""A chief that was replaced while it slept ends: it does not take the job back from its successor."""

from contextlib import ExitStack

import pytest

import monolith as mono
from monolith.checkpoint import claim_generation
from monolith.checkpoint.keep.generations import current_generation
from monolith.errors import FencedError
from monolith.parallel import ParameterServer, RemoteShard
from monolith.train.job.place import PS, place_of
from tests.train.job.counting_job import Counting, config_of

CHIEF = {"server_type": "worker", "index": 0, "num_ps": 1, "num_workers": 1}


class Sleeps(mono.Hook):
    """Lets another chief begin to take over while this one sleeps after its third step."""

    def __init__(self, folder, server, secret):
        self._folder, self._server, self._secret = folder, server, secret
        self._steps, self.generation = 0, 0

    def after_run(self, context, values):
        self._steps += 1
        if self._steps == 3:
            self.generation = claim_generation(self._folder, 1)
            shard = self._server.shard
            with RemoteShard(self._server.address, secret=self._secret) as successor:
                successor.init(shard.plan, 0, 1, generation=self.generation, anew=True)


@pytest.mark.parametrize("partial", [False, True])
def test_a_chief_that_was_replaced_leaves_the_job_to_its_successor(tmp_path, partial):
    config = config_of(tmp_path, partial_recovery=partial, **CHIEF)
    with ExitStack() as cleanup:
        place = cleanup.enter_context(place_of(config, None))
        server = cleanup.enter_context(ParameterServer(secret=place.secret))
        place.register(PS, 0, server.address)
        other = Sleeps(tmp_path, server, place.secret)
        with pytest.raises(FencedError):
            mono.Estimator(Counting, config, params={"events": 160}).train(hooks=[other])
        assert server.shard.generation == current_generation(tmp_path) == other.generation
        assert not server.shard.is_ready, "the successor has not restored it yet"
