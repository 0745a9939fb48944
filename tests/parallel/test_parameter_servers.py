"""Parameter servers: a chief makes, saves and restores what they hold, in any number of shards."""

import json
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest
import torch

from monolith.checkpoint import Saver, load_snapshot
from monolith.checkpoint.keep import Retention
from monolith.checkpoint.shards import PartialRecoverySaver, PsMonitor, ShardsSaver, load_into_shards
from monolith.errors import CorruptFileError, FencedError, PlanMismatchError, RemoteError, SecretError
from monolith.model import make_plan, make_tables
from monolith.parallel import BatchKey, ParameterServer, RemoteDense, RemoteShard, RemoteTables, RetryConfig
from monolith.parallel.control import ControlRequest
from monolith.wire import Message, SharedSecret, connect
from tests.checkpoint.small_state import SCHEMA, Model
from tests.parallel.served_state import PLAN, QUICK, SECRET, AloneState, ServedState, content, saved_content
from tests.patience import PATIENCE_SECONDS
from tests.security.page import line

KEEP_ALL = Retention(max_to_keep=None)


def trained(state, num_steps):
    state.dense = torch.zeros(3) if state.dense is None else state.dense
    state.train(num_steps)
    return state


def save(saver, state, *, delta=False):
    saver.begin(delta=delta, in_parallel=False, **state.moment())
    return saver.finish()


def saver_of(state, folder):
    return ShardsSaver(folder, PLAN, state.shards, retention=KEEP_ALL)


def local_saver(state, folder):
    state.moment = lambda: ServedState.moment(state)
    return Saver(folder, PLAN, state.tables, retention=KEEP_ALL)


@pytest.fixture
def served():
    with ExitStack() as cleanup:
        yield lambda *args, **settings: cleanup.enter_context(ServedState(*args, **settings))


@pytest.mark.parametrize("num_servers", [1, 3])
def test_snapshots_and_deltas_are_those_of_one_process(served, tmp_path, num_servers):
    alone, state = AloneState(), served(num_servers).join()
    alone_saver, saver = local_saver(alone, tmp_path / "alone"), saver_of(state, tmp_path / "served")
    for number in range(4):
        trained(alone, 2)
        trained(state, 2)
        ours, theirs = (save(one, of, delta=number > 0) for one, of in ((saver, state), (alone_saver, alone)))
        # The first delta is a snapshot: nobody counted changes before.
        assert ours.name == theirs.name == ["model.ckpt-2", "model.ckpt-4", *DELTAS][number]
        assert saved_content(ours) == saved_content(theirs)
    assert saver.close() is None
    # Some other number of servers takes it over, from a snapshot and from a chain, and trains on in step with one.
    for number, path in ((2, tmp_path / "served" / "model.ckpt-4"), (5, ours), (num_servers, theirs)):
        other, single = served(number), AloneState()
        load_into_shards(path, other.shards, plan=PLAN)
        single.step = other.step = 8
        load_snapshot(path, plan=PLAN, tables=single.tables)
        other.join()
        trained(other, 2)
        trained(single, 2)
        again = save(saver_of(other, tmp_path / f"again-{number}-{path.name}"), other)
        assert saved_content(again)[0] == content(single.tables)


DELTAS = ["model.ckpt-4.delta-1", "model.ckpt-4.delta-2"]


def test_training_goes_on_while_servers_write_what_was_frozen(served, tmp_path):
    state = trained(served(2).join(), 3)
    alone = trained(AloneState(), 3)
    saver = saver_of(state, tmp_path)
    begun = threading.Event()
    for server in state.servers:
        # The write waits: what it writes must be the moment of the freeze all the same.
        server._writer.submit(begun.wait, PATIENCE_SECONDS)
    saver.begin(delta=False, in_parallel=False, **state.moment())
    trained(state, 3)
    assert saver.is_busy
    begun.set()
    assert saved_content(saver.finish())[0] == content(alone.tables)


def test_a_restored_server_skips_batches_that_were_applied_before(served, tmp_path):
    state = served(2).join()
    state.dense, ids = torch.zeros(3), torch.arange(50)

    def push(tables, begin, end):
        plan = tables.plan(ids, [0, len(ids)])
        plan.apply_gradients(torch.ones(4 * len(ids)), time=9, key=BatchKey("ratings/0", begin, end))
        return tables["uid"].lookup(ids)

    first = push(state.tables, 0, 10)
    path = save(saver_of(state, tmp_path), state)
    second = push(state.tables, 10, 20)
    assert json.loads((path / "manifest.json").read_text())["extra"]["shards"] == [
        {"applied": {"ratings/0": 10}, "dense_applied": {}, "draws": {}}
    ]
    for number in (2, 3):
        new = served(number)
        load_into_shards(path, new.shards, plan=PLAN)
        new.join()
        assert torch.equal(push(new.tables, 0, 10), first)
        assert torch.equal(push(new.tables, 10, 20), second)
    # Another stream begins at its own offsets.
    other = served(2)
    load_into_shards(path, other.shards, plan=PLAN, positions=False)
    other.join()
    assert torch.equal(push(other.tables, 0, 10), second)


def test_only_servers_that_are_new_are_restored(served, tmp_path):
    state = trained(served(2).join(), 1)
    saver = PartialRecoverySaver(state.shards, PLAN, tmp_path, ps_monitor=PsMonitor(state.shards))
    path = saver.save(1)
    ids = torch.arange(200)
    before = state.tables["uid"].lookup(ids)
    trained(state, 1)
    after = state.tables["uid"].lookup(ids)
    assert saver.restore(path) == []
    # The second server is gone, with what it held; another one comes at its address.
    address = state.servers[1].address
    state.servers[1].close()
    with ParameterServer(address, secret=SECRET):
        state.shards[1].init(PLAN, 1, 2, generation=1)
        assert saver.restore(path) == [1]
        saver.setup_ps_initialized_state()
        found = state.tables["uid"].lookup(ids)
    first = state.servers[0].shard.owns(ids)
    assert torch.equal(found, torch.where(first[:, None], after, before))
    assert not torch.equal(before, after)


def test_clients_wait_until_the_chief_lets_them_in(served):
    state = served(2)
    impatient = RetryConfig(deadline_seconds=2.0, first_pause_seconds=0.05)
    with pytest.raises(TimeoutError, match="has no state yet; the chief makes or restores it first"):
        RemoteTables(PLAN.tables(), state.addresses, plan_hash=PLAN.hash, secret=SECRET, retry=impatient)
    letting_in = threading.Timer(0.2, lambda: [shard.mark_initialized() for shard in state.shards])
    letting_in.start()
    with RemoteTables(PLAN.tables(), state.addresses, plan_hash=PLAN.hash, secret=SECRET, retry=QUICK) as tables:
        assert tables.num_rows() == {"mov": 0, "uid": 0}
    letting_in.join()


def test_a_new_generation_cuts_the_clients_of_the_old_one(served):
    state = trained(served(1).join(), 1)
    (shard,), rows = state.shards, state.tables.num_rows()
    assert shard.init(PLAN, 0, 1, generation=1)["is_ready"]  # the same chief asks again
    assert not shard.init(PLAN, 0, 1, generation=2)["is_ready"]
    shard.mark_initialized()
    with pytest.raises(FencedError, match="of generation 2, the client of 1: the job was restored since"):
        state.tables.lookup({"uid": torch.tensor([1])})
    state.generation = 2
    assert state.join().tables.num_rows() == rows, "rows are kept"
    with pytest.raises(FencedError, match="belongs to generation 2 of its job, the chief is of 1"):
        shard.init(PLAN, 0, 1, generation=1)
    with pytest.raises(PlanMismatchError, match="holds shard 0 of 1 of the plan .* not 1 of 2"):
        shard.init(PLAN, 1, 2, generation=2)
    assert sum(shard.init(PLAN, 1, 2, generation=2, anew=True)["num_rows"].values()) == 0


def test_a_server_that_never_had_its_state_begins_anew_for_the_next_chief(served, tmp_path):
    path = save(saver_of((state := trained(served(1).join(), 1)), tmp_path), state)
    new = served(1)
    (shard,) = new.shards
    shard.restore_part(str(path))  # the chief ends before it says that this was all
    rows = shard.init(PLAN, 0, 1, generation=1)["num_rows"]
    assert sum(rows.values()) > 0, "the same chief asks again"
    status = shard.init(PLAN, 1, 2, generation=2)
    assert (status["shard"], status["num_shards"], status["is_initialized"]) == (1, 2, False)
    assert sum(status["num_rows"].values()) == 0


def test_a_chief_that_was_replaced_lets_nobody_in_and_restores_nothing(served, tmp_path):
    state = trained(served(1).join(), 1)
    path = save(saver_of(state, tmp_path), state)
    replaced = served(1)
    (shard,) = replaced.shards
    with RemoteShard(replaced.addresses[0], secret=SECRET, retry=QUICK) as successor:
        successor.init(PLAN, 0, 1, generation=2)
        for late in (shard.mark_initialized, lambda: shard.restore_part(str(path))):
            with pytest.raises(FencedError, match="of generation 2 of its job, not 1"):
                late()
        status = successor.status()
        assert (status["is_initialized"], status["is_ready"], sum(status["num_rows"].values())) == (False, False, 0)
        successor.restore_part(str(path))
        successor.mark_initialized()
        assert successor.status()["num_rows"] == state.tables.num_rows()


def test_clients_of_an_earlier_chief_do_not_wait_for_the_state_of_a_later_one(served):
    in_vain = RetryConfig(deadline_seconds=20.0, first_pause_seconds=0.01)
    state = trained(served(1).join(retry=in_vain), 1)
    with RemoteDense(state.addresses, secret=SECRET, generation=1, retry=in_vain) as dense:
        model = torch.nn.Linear(3, 1)
        dense.create(model, torch.optim.SGD(model.parameters(), lr=1.0))
        state.shards[0].init(PLAN, 0, 1, generation=2, anew=True)
        for ask in (dense.fetch, lambda: state.tables.lookup({"uid": torch.tensor([1])})):
            with pytest.raises(FencedError, match="is of generation 2"):
                ask()


def test_errors_of_a_server_are_those_of_one_process(served, tmp_path):
    state = trained(served(2).join(), 2)
    path = save(saver_of(state, tmp_path), state)
    before = saved_content(path)
    (path / "tables" / "uid-00001-of-00002").write_bytes(b"damaged")
    with pytest.raises(CorruptFileError, match="uid-00001-of-00002"):
        load_into_shards(path, state.shards, plan=PLAN)
    with pytest.raises(CorruptFileError, match=f"{state.addresses[1]}: .*uid-00001-of-00002"):
        state.shards[1].restore_part(str(path))
    with pytest.raises(OSError, match="no-such-folder"):
        state.shards[0].freeze("x", state.shards[0].progress(), track=False)
        state.shards[0].write_part("x", str(tmp_path / "no-such-folder"), 1, 1, changes=False)
    with pytest.raises(ValueError, match="has frozen nothing for this save"):
        state.shards[0].write_part("y", str(tmp_path), 1, 1, changes=False)
    state.step = 3
    assert saved_content(save(saver_of(state, tmp_path), state)) == before, "nothing was changed by all that"


@line(
    "a parameter server", "`ParameterServer(...)` in code", "127.0.0.1, a free port", "shared secret, or certificates"
)
def test_strangers_control_nothing(served, tmp_path):
    state = trained(served(1).join(), 1)
    (address,) = state.addresses
    init = Message(type=ControlRequest.INIT, meta={})
    with pytest.raises(SecretError):
        RemoteShard(address, secret=SharedSecret.new("another job"), retry=QUICK).status()
    with connect(address, secret=SECRET) as friend:
        for message, words in (
            (init, "speaks version 1 of the control messages"),
            (Message(type=ControlRequest.INIT, meta={"protocol": 1}), "generation"),
            (Message(type=119, meta={"protocol": 1}), "no answer to messages of type 119"),
        ):
            with pytest.raises(RemoteError, match=words):
                friend.request(message, PATIENCE_SECONDS)
    with pytest.raises(ValueError, match="lets everyone in"):
        ParameterServer()
    assert str(address).startswith("127.0.0.1:")
    assert sum(state.tables.num_rows().values()) > 0


def test_dense_parameters_are_saved_and_restored_with_the_rows(served, tmp_path):
    state = trained(served(2).join(), 1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters())
    dense = state.cleanup.enter_context(RemoteDense(state.addresses, secret=SECRET, generation=1, retry=QUICK))
    dense.create(model, optimizer)

    def step(begin):
        model.zero_grad()
        model(torch.ones(1, 3)).sum().backward()
        dense.step(BatchKey("ratings/0", begin, begin + 10))
        return {name: tensor.tolist() for name, tensor in dense.tensors().items()}

    step(0)
    after = step(10)
    state.step = 2
    path = save(saver_of(state, tmp_path), state)
    found = saved_content(path)[1]
    assert found.pop("weight") is not None, "what the chief holds is saved too"
    assert found == after
    later = step(20)
    assert later != after
    load_into_shards(path, state.shards, plan=PLAN)
    assert {name: tensor.tolist() for name, tensor in dense.tensors().items()} == after
    dense.fetch()
    assert dense.global_step == 2
    step(10)
    assert dense.global_step == 2, "the batch was in the snapshot"
    assert step(20) == later
    with pytest.raises(FencedError, match="of generation 1 of its job, not 7"):
        dense.generation = 7
        dense.fetch()


SERVER = """
import sys
from monolith.parallel import ParameterServer
from monolith.wire import SharedSecret
with ParameterServer(secret=SharedSecret(bytes.fromhex(sys.argv[1]), "a test")) as server:
    print(server.address, flush=True)
    sys.exit(0 if server.wait(600) else 1)
"""


def start_two(cleanup):
    """Start two servers side by side; return each with its address."""
    command = [sys.executable, "-c", SERVER, SECRET.key.hex()]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        cleanup.callback(process.wait)
        cleanup.callback(process.kill)
    return [(process, process.stdout.readline().strip()) for process in processes]


def test_processes_save_restore_die_and_end(tmp_path):
    with ExitStack() as cleanup:
        (first, one), (second, two) = start_two(cleanup)
        state = cleanup.enter_context(ServedState(2, addresses=[one, two])).join()
        alone = trained(AloneState(), 4)
        saver = saver_of(trained(state, 4), tmp_path)
        path = save(saver, state)
        assert saved_content(path)[0] == content(alone.tables)
        second.kill()
        state.shards[1]._retry = RetryConfig(deadline_seconds=2.0, first_pause_seconds=0.05)
        with pytest.raises(TimeoutError, match=two):
            saver.begin(delta=False, in_parallel=False, **state.moment() | {"step": 5})
        assert [one.name for one in tmp_path.iterdir() if one.is_dir()] == ["model.ckpt-4"]
        # Three servers go on: the one that is left, which begins anew, and two new ones.
        (third, three), (fourth, four) = start_two(cleanup)
        more = cleanup.enter_context(ServedState(3, addresses=[one, three, four], generation=2, anew=True))
        load_into_shards(path, more.shards, plan=PLAN)
        more.join().step = 4
        assert saved_content(save(saver_of(trained(more, 2), tmp_path), more))[0] == content(trained(alone, 2).tables)
        for shard in more.shards:
            shard.shut_down()
        assert [process.wait(PATIENCE_SECONDS) for process in (first, third, fourth)] == [0, 0, 0]


def test_another_plan_is_refused_before_anything_changes(served, tmp_path):
    state = trained(served(2).join(), 1)
    path = save(saver_of(state, tmp_path), state)

    with pytest.raises(PlanMismatchError, match="another lookup plan"):
        load_into_shards(path, state.shards, plan=make_plan(Model(), SCHEMA))
    assert make_tables(PLAN).names == state.tables.names
