"""Tables on servers do what local tables do, with any number of servers."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
import torch

from monolith.embedding import AdagradOptimizer, MultiTable, Segment, TableConfig
from monolith.embedding.admission import SlotOccurrenceThresholdConfig, create_hash_filter
from monolith.errors import RemoteError
from monolith.parallel import BatchKey, RemoteTables, RetryConfig
from monolith.parallel.batch_key import CallNumbers
from tests.free_port import free_port
from tests.parallel.conftest import CONFIGS, PLAN_HASH, QUICK, SECRET
from tests.patience import PATIENCE_SECONDS


def random_ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(-(2**62), 2**62, (count,), generator=torch.Generator().manual_seed(seed)) % 5000


def train(tables, steps: int = 6) -> list[torch.Tensor]:
    """Train on batches in which ids repeat, and return what every lookup saw."""
    seen = []
    for step in range(steps):
        item, user = random_ids(3000, step), random_ids(1000, step + 100)
        plan = tables.plan(torch.cat([item, user]), [len(item), len(user)])
        seen.append(plan.lookup())
        gradients = torch.randn(len(seen[-1]), generator=torch.Generator().manual_seed(step))
        plan.apply_gradients(gradients, global_step=step, time=1000 + step)
    return seen


@pytest.mark.parametrize("num_servers", [1, 2, 5])
def test_training_is_the_same_bit_for_bit_as_with_local_tables(serve, join, num_servers):
    local = MultiTable(CONFIGS)
    servers = [serve(shard=shard, num_shards=num_servers) for shard in range(num_servers)]
    remote = join(*servers)
    for ours, theirs in zip(train(remote), train(local), strict=True):
        assert torch.equal(ours, theirs)
    assert remote.num_rows() == {name: len(table) for name, table in local.tables.items()}
    if num_servers > 1:
        shares = [len(server.tables["item"]) for server in servers]
        assert min(shares) > 0.7 * sum(shares) / num_servers, "ids are spread evenly"
    assert all(table.native.max_step == 5 for server in servers for table in server.tables.tables.values())


def test_tls_carries_the_same_rows(serve, join, certificates):
    local = MultiTable(CONFIGS)
    servers = [serve(shard=shard, num_shards=2, tls=certificates["server"]) for shard in range(2)]
    remote = join(*servers, tls=certificates["client"])
    for ours, theirs in zip(train(remote), train(local), strict=True):
        assert torch.equal(ours, theirs)
    assert remote["item"].contains(random_ids(3000, 0)).all()


def test_half_rows_are_close_and_take_huge_gradients(serve, join):
    remote = join(serve(), half=True)
    for ours, theirs in zip(train(remote), train(MultiTable(CONFIGS)), strict=True):
        assert torch.allclose(ours, theirs, atol=2e-2)
    id_ = torch.tensor([-77])
    remote["item"].apply_gradients(id_, torch.full((1, 3), 1e6))
    assert torch.equal(remote["item"].lookup(id_), torch.full((1, 3), -0.5 * 65504))


def test_an_admission_filter_sees_how_often_ids_occur(serve, join):
    def tables() -> MultiTable:
        thresholds = SlotOccurrenceThresholdConfig(default_occurrence_threshold=3)
        return MultiTable(CONFIGS, admission=create_hash_filter(10_000, 2, thresholds, "_test"))

    local, server = tables(), serve(tables=tables())
    remote = join(server)
    ids, ones = torch.tensor([1, 2, 1, 1, 2]), torch.ones(5, 3)
    admitted = []
    for one in (local, remote):
        results = [one.apply_gradients({"item": (ids, ones)}, time=9) for _ in range(2)]
        admitted.append([(result.inserted, result.filtered) for result in results])
    # Id 1 has its row after the second batch because it occurs three times in each, id 2 not yet.
    assert admitted == [[(0, 2), (1, 1)]] * 2
    asked = torch.tensor([1, 2])
    assert torch.equal(local["item"].lookup(asked), remote["item"].lookup(asked))


def test_evict_counts_back_from_the_newest_time_on_any_server(serve, join):
    config = TableConfig(name="item", segments=CONFIGS["item"].segments, expire_days=1)
    configs = {"item": config, "user": CONFIGS["user"]}
    servers = [serve(shard=shard, num_shards=2, tables=MultiTable(configs)) for shard in range(2)]
    remote = join(*servers)
    day = 24 * 3600
    remote["item"].assign(torch.arange(100), torch.ones(100, 3), time=day)
    servers[0].tables["item"].native.raise_max_time(3 * day)
    assert remote["item"].evict() == 100
    assert len(remote["item"]) == 0


def test_a_replayed_push_is_skipped(serve, join):
    server = serve()
    remote, other = join(server), join(server)
    ids, gradients = torch.tensor([1, 2]), torch.ones(6)

    def push(tables, begin: int, end: int):
        key = BatchKey("ratings/0", begin, end)
        return tables.plan(ids, [2, 0]).apply_gradients(gradients, key=key)

    assert push(remote, 0, 10).inserted == 2
    push(remote, 0, 10)
    push(other, 0, 10)
    assert torch.equal(remote["item"].lookup(ids), torch.full((2, 3), -0.5))
    push(other, 10, 20)
    assert torch.equal(remote["item"].lookup(ids), torch.full((2, 3), -1.0))
    with pytest.raises(RemoteError, match="overlaps one that was applied"):
        push(remote, 15, 25)
    assert server.applied_batches() == {"ratings/0": 20}
    server.restore_applied_batches({"ratings/0": 30})
    push(remote, 20, 30)
    assert torch.equal(remote["item"].lookup(ids), torch.full((2, 3), -1.0))


class CuttingProxy:
    """Passes bytes on; when told, it lets a request through and cuts the connection before the reply."""

    def __init__(self, target) -> None:
        self._target = (target.host, target.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut_next_reply = threading.Event()
        self.num_cut = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            threading.Thread(target=self._pass_on, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_reply: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if is_reply and self.cut_next_reply.is_set():
                    self.cut_next_reply.clear()
                    self.num_cut += 1
                    break
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            with contextlib.suppress(OSError):  # closing alone would not end the other thread's wait
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self) -> None:
        self._listener.close()


def test_a_push_whose_reply_was_lost_is_sent_again_and_applied_once(serve, cleanup, certificates):
    # With certificates: a handshake by secret does not pass through another port.
    server = serve(tls=certificates["server"])
    proxy = CuttingProxy(server.address)
    cleanup.callback(proxy.close)
    remote = cleanup.enter_context(
        RemoteTables(CONFIGS, [proxy.address], plan_hash=PLAN_HASH, tls=certificates["client"], retry=QUICK)
    )
    ids = torch.tensor([1, 2])
    for _ in range(3):
        proxy.cut_next_reply.set()
        remote["item"].assign_add(ids, torch.ones(2, 3))
        proxy.cut_next_reply.set()
        remote["item"].lookup(ids)
    assert proxy.num_cut == 6
    assert remote.servers.num_retries >= 6
    assert torch.equal(server.tables["item"].lookup(ids), torch.full((2, 3), 3.0))


def test_concurrent_clients_lose_no_update(serve, join):
    servers = [serve(shard=shard, num_shards=2) for shard in range(2)]
    ids = torch.arange(500)
    clients = [join(*servers) for _ in range(4)]
    errors: list[BaseException] = []

    def work(tables) -> None:
        try:
            for _ in range(20):
                tables["item"].assign_add(ids, torch.ones(500, 3))
                tables["item"].lookup(ids)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    # Two threads per client: calls of one client take turns.
    threads = [threading.Thread(target=work, args=(client,)) for client in clients for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not errors
    assert torch.equal(clients[0]["item"].lookup(ids), torch.full((500, 3), 160.0))


def test_threads_of_one_client_have_keys_of_their_own():
    numbers = CallNumbers()
    ours = [numbers.next() for _ in range(2)]
    theirs = []
    thread = threading.Thread(target=lambda: theirs.append(numbers.next()))
    thread.start()
    thread.join()
    assert [key[1:] for key in (*ours, *theirs)] == [(0, 1), (1, 2), (0, 1)]
    assert ours[0][0] == ours[1][0] != theirs[0][0]


def test_a_server_that_comes_back_is_used_again(serve, join):
    server = serve(f"127.0.0.1:{free_port()}")
    remote = join(server)
    ids = torch.tensor([1, 2])
    remote["item"].assign(ids, torch.ones(2, 3))
    address, tables = str(server.address), server.tables
    server.close()
    started = threading.Timer(0.3, lambda: serve(address, tables=tables))
    started.start()
    assert torch.equal(remote["item"].lookup(ids), torch.ones(2, 3))
    started.join()
    assert remote.servers.num_retries > 0


def test_a_server_that_is_gone_is_a_timeout_that_names_it(serve, join):
    server = serve()
    remote = join(server)
    server.close()
    remote.servers._retry = RetryConfig(deadline_seconds=1.0, first_pause_seconds=0.05)
    with pytest.raises(TimeoutError, match=f"no answer within 1.0 seconds; last: {server.address}"):
        remote["item"].lookup(torch.tensor([1]))


SERVER = """
import sys
from monolith.embedding import MultiTable
from monolith.parallel import TableServer
from monolith.wire import SharedSecret
from monolith.parallel.batch_key import CallNumbers
from tests.parallel.conftest import CONFIGS, PLAN_HASH
secret = SharedSecret(bytes.fromhex(sys.argv[1]), "a test")
with TableServer(MultiTable(CONFIGS), secret=secret, plan_hash=PLAN_HASH) as server:
    print(server.address, flush=True)
    sys.stdin.read()
"""


def test_a_frozen_server_is_a_timeout_and_serves_again_when_it_wakes(cleanup):
    command = [sys.executable, "-c", SERVER, SECRET.key.hex()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    cleanup.callback(process.wait)
    cleanup.callback(process.kill)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    given = {"plan_hash": PLAN_HASH, "secret": SECRET}
    remote = cleanup.enter_context(RemoteTables(CONFIGS, [address], retry=QUICK, **given))
    ids, ones = torch.tensor([1]), torch.ones(1, 3)
    remote["item"].assign(ids, ones)
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # a signal takes a moment to arrive
    remote.servers._retry = RetryConfig(deadline_seconds=2.0, attempt_seconds=0.5, connect_seconds=0.5)
    with pytest.raises(TimeoutError, match="no answer within 2.0 seconds"):
        remote["item"].assign_add(ids, ones)
    process.send_signal(signal.SIGCONT)
    patient = cleanup.enter_context(RemoteTables(CONFIGS, [address], retry=QUICK, **given))
    # Whether the addition was carried out is not known; it was not carried out twice.
    assert patient["item"].lookup(ids)[0, 0] in (1, 2)


def test_a_server_that_takes_connections_and_says_nothing_holds_a_call_no_longer_than_its_deadline():
    retry = RetryConfig(deadline_seconds=0.3, connect_seconds=600)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TimeoutError, match=r"no answer within 0\.3 seconds"):
            RemoteTables(CONFIGS, [address], plan_hash=PLAN_HASH, secret=SECRET, retry=retry)


def test_rows_never_go_to_the_wrong_shard(serve, join):
    servers = [serve(shard=shard, num_shards=2) for shard in range(2)]
    with pytest.raises(RemoteError, match="table server 1 of 2, the client wants 0 of 2"):
        join(servers[1], servers[0])


def test_optimizer_state_is_on_the_server(serve, join):
    adagrad = {
        name: TableConfig(name=name, segments=tuple(Segment(one.dim, AdagradOptimizer(0.1)) for one in config.segments))
        for name, config in CONFIGS.items()
    }
    local, server = MultiTable(adagrad), serve(tables=MultiTable(adagrad))
    remote = join(server, configs=adagrad)
    for ours, theirs in zip(train(remote), train(local), strict=True):
        assert torch.equal(ours, theirs)
    ids = random_ids(3000, 3)
    assert torch.equal(server.tables["item"].lookup(ids), local["item"].lookup(ids))


UNCLOSED = """
import torch
from monolith.embedding import MultiTable
from monolith.parallel import RemoteTables, TableServer
from monolith.wire import SharedSecret
from tests.parallel.conftest import CONFIGS
secret = SharedSecret.new("a test")
server = TableServer(MultiTable(CONFIGS), secret=secret)
remote = RemoteTables(CONFIGS, [server.address], secret=secret)
remote["item"].lookup(torch.tensor([1]))
"""


def test_a_process_with_an_open_server_and_client_ends_in_peace():
    done = subprocess.run([sys.executable, "-c", UNCLOSED], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
