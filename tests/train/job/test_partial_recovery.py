"""Partial recovery when an attempt of the chief ends early: the next one leaves out no server that lacks its state."""

import os
import signal
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

import monolith as mono
from monolith.data.parts import PartSource
from monolith.errors import SecretError
from monolith.parallel import ParameterServer, RetryConfig
from monolith.train.job import chief_state
from monolith.train.job.chief_state import ChiefConfig, ChiefState
from monolith.train.job.place import PS, coordinator_at, place_of
from monolith.train.job.scale.scaling import Scaling
from monolith.train.job.scale.shape import CLUSTER_FOLDER, JobShape
from monolith.train.job.status import with_servers
from monolith.train.state import StateConfig
from monolith.wire import SharedSecret
from tests.new_processes import PROCESSES
from tests.parallel.served_state import content
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import Counting, config_of, events_source

NUM_PS = 3
NUM_EVENTS = 160
PATIENT = RetryConfig(deadline_seconds=30.0, first_pause_seconds=0.01)
"""Short for a test that waits for it in vain: weights that nobody creates are asked for until then."""

CHIEF = {"server_type": "worker", "index": 0, "num_ps": NUM_PS, "num_workers": 1, "partial_recovery": True}


class Servers:
    """The parameter servers of a job that has trained and saved; each can be replaced by an empty one."""

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        self.folder, self._cleanup = folder, cleanup
        self.place = cleanup.enter_context(place_of(config_of(folder, **CHIEF), None))
        self._servers = [self._start("127.0.0.1:0", self.place.secret) for _ in range(NUM_PS)]
        for index, server in enumerate(self._servers):
            self.place.register(PS, index, server.address)
        mono.Estimator(Counting, config_of(folder, **CHIEF), params={"events": NUM_EVENTS}).train()
        self.saved = self.content()

    def replace(self, index: int, secret: SharedSecret | None = None) -> None:
        """Let an empty server take a place, at the same address; one with another secret refuses the chief."""
        address = str(self._servers[index].address)
        self._servers[index].close()
        self._servers[index] = self._start(address, secret or self.place.secret)

    def content(self):
        """All rows of each server, and its dense tensors; none of a server that is empty."""
        return [
            (content(one.shard.tables), {name: it.tolist() for name, it in one.shard.dense_tensors().items()})
            for one in self._servers
        ]

    @property
    def states(self) -> list[str]:
        """What `monolith status` shows of the servers."""
        status = {"servers": [str(one.address) for one in self._servers]}
        found = with_servers(status, secret=self.place.secret, timeout_seconds=PATIENCE_SECONDS)
        return [one["state"] for one in found["servers"]]

    def _start(self, address: str, secret: SharedSecret) -> ParameterServer:
        return self._cleanup.enter_context(ParameterServer(address, secret=secret))


@pytest.fixture
def servers(tmp_path):
    with ExitStack() as cleanup:
        yield Servers(tmp_path, cleanup)


@contextmanager
def attempt(folder: Path):
    """Be the chief until it has restored its servers."""
    place = place_of(config_of(folder, **CHIEF), None)
    with place, coordinator_at(place, 1) as coordinator:
        state = ChiefState(
            Counting({"events": NUM_EVENTS}),
            PartSource(events_source(NUM_EVENTS), 1, 0),
            StateConfig(),
            place=place,
            addresses=place.servers(NUM_PS),
            coordinator=coordinator,
            job=ChiefConfig(folder=folder, num_workers=1, retry=PATIENT, partial=True),
            scaling=Scaling(folder / CLUSTER_FOLDER, JobShape(num_ps=NUM_PS, num_workers=1)),
        )
        with closing(state):
            assert state.open(folder) is not None
            yield state


def die_at(moment: str, folder: str) -> None:
    """Be a chief that is killed after it has greeted its servers: before it restores rows, or before dense weights."""

    def die(*args: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(*{"rows": (chief_state, "load_into_shards"), "weights": (ChiefState, "_give_dense_away")}[moment], die)
    with attempt(Path(folder)):
        pass


def check_next_attempt(servers: Servers) -> None:
    """Let another chief begin: every server must have what the snapshot has, and all clients must be let in."""
    with attempt(servers.folder) as state:
        assert servers.content() == servers.saved
        assert servers.states == ["serving"] * NUM_PS
        assert state.tables.num_rows() == {"uid": sum(len(rows["uid"][0]) for rows, _ in servers.saved)}
        assert float(state.model.weight.detach()) == state.global_step == NUM_EVENTS // 8


# Shard 0 has the weight, shard 1 has rows alone.
@pytest.mark.parametrize(("lost", "moment"), [(0, "rows"), (1, "rows"), (0, "weights")])
def test_a_chief_that_is_killed_before_it_restores_a_new_server(servers, lost, moment):
    assert ["model/weight" in dense for _, dense in servers.saved] == [True, False, False]
    assert all(rows["uid"][0] for rows, _ in servers.saved)
    servers.replace(lost)
    chief = PROCESSES.Process(target=die_at, args=(moment, str(servers.folder)), daemon=True)
    chief.start()
    chief.join(PATIENCE_SECONDS)
    assert chief.exitcode == -signal.SIGKILL
    assert servers.states[lost] == "restoring"
    check_next_attempt(servers)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_new_server_is_greeted_and_another_one_refuses(servers, lost):
    servers.replace(lost)
    servers.replace(2, SharedSecret.new("another job"))
    with pytest.raises(SecretError), attempt(servers.folder):
        pass
    assert servers.states[lost] == "restoring"
    servers.replace(2)
    check_next_attempt(servers)
