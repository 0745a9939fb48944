"""A trainer's source, with dispatcher and workers in the same process."""

import json
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from monolith.data import Batch, Pipeline, assert_resume_is_exact
from monolith.data.resume_check import batch_values
from monolith.data_service import (
    DataWorker,
    DataWorkerConfig,
    Dispatcher,
    DispatcherConfig,
    DispatcherInUseError,
    ServiceSource,
    load_input,
    service_status,
)
from monolith.data_service.batch_message import PlacedBatch, join_batches, pack_batch, unpack_batches
from monolith.data_service.dispatch.ledger_file import LedgerFile
from monolith.errors import CorruptFileError, CorruptFrameError, FencedError, RemoteError
from monolith.tensors import Ragged
from monolith.wire import Message
from monolith.wire.frame import HEADER_BYTES, decode_frame, decode_header, encode_frame
from tests.data_service.numbered_input import BROKEN_INPUT, INPUT, NUM_RECORDS, make_source, seqs
from tests.patience import PATIENCE_SECONDS
from tests.wire.conftest import certificates  # noqa: F401  a fixture


def settings(folder, **changed):
    return DispatcherConfig(
        **{"input": INPUT, "num_splits": 5, "state_path": str(folder), "address": "127.0.0.1:0", **changed}
    )


@pytest.fixture
def dispatcher(tmp_path):
    with Dispatcher(settings(tmp_path / "state")) as dispatcher:
        yield dispatcher


@pytest.fixture
def worker(dispatcher):
    with DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, prefetch_batches=2)) as worker:
        yield worker


def one_by_one(dispatcher, trainer="one"):
    """Splits one after the other: the order is always the same."""
    return ServiceSource(dispatcher.address, trainer=trainer, splits_in_flight=1, prefetch_batches=2)


def everything(source):
    return sorted(number for batch in source for number in seqs(batch))


def test_the_batches_are_those_of_the_input(dispatcher, worker):
    source = one_by_one(dispatcher)
    assert source.schema == make_source().schema
    got = [batch_values(batch) for batch in source]
    assert got == [
        batch_values(replace(batch, partition=f"{index}/numbers@0"))
        for index in range(5)
        for batch in make_source().shard(5, index)
    ]


@pytest.mark.usefixtures("worker")
def test_several_splits_at_once_are_each_in_order(dispatcher):
    last: dict[int, int] = {}
    numbers = []
    for batch in ServiceSource(dispatcher.address, trainer="one", splits_in_flight=4):
        split = batch.first // 4 % 5
        assert batch.first > last.get(split, -1)
        last[split] = batch.first
        numbers += seqs(batch)
    assert sorted(numbers) == list(range(NUM_RECORDS))


@pytest.mark.usefixtures("worker")
def test_resume_is_exact(dispatcher):
    assert_resume_is_exact(lambda: one_by_one(dispatcher), max_batches=25)


@pytest.mark.usefixtures("worker")
def test_resume_is_exact_of_a_shard_of_a_pipeline(dispatcher):
    def make():
        return Pipeline(one_by_one(dispatcher)).filter(lambda batch: batch.columns["seq"] % 7 > 0).shard(2, 1)

    assert_resume_is_exact(make, max_batches=8)


@pytest.mark.usefixtures("worker")
def test_shards_share_nothing_and_are_the_whole(dispatcher):
    whole = one_by_one(dispatcher)
    parts = [everything(whole.shard(2, 0)), *(everything(whole.shard(2, 1).shard(2, index)) for index in (0, 1))]
    assert sorted(sum(parts, [])) == list(range(NUM_RECORDS))
    assert all(parts)


@pytest.mark.usefixtures("worker")
def test_iterating_again_goes_on_where_it_stopped(dispatcher):
    source = ServiceSource(dispatcher.address, trainer="one", splits_in_flight=3)
    numbers = []
    for _ in range(8):
        for count, batch in enumerate(source, 1):
            numbers += seqs(batch)
            if count == 5:
                break
    assert len(numbers) == len(set(numbers))
    assert sorted(numbers + everything(source)) == list(range(NUM_RECORDS))
    assert everything(source) == []


class StoppedMeanwhile(threading.Event):
    """Set after it was looked at once."""

    def is_set(self):
        before = super().is_set()
        self.set()
        return before


@pytest.mark.usefixtures("worker")
def test_a_reader_that_is_stopped_while_it_waits_takes_no_split_of_the_next(dispatcher):
    source = ServiceSource(dispatcher.address, trainer="one", splits_in_flight=1)
    first = next(iter(source))
    member = source._membership
    member.share.renew()
    assert member.next_lease(StoppedMeanwhile()) is None
    assert member.share.next_pending(threading.Event()) is not None
    assert sorted(seqs(first) + everything(source)) == list(range(NUM_RECORDS))


@pytest.mark.usefixtures("worker")
def test_each_round_has_everything(dispatcher):
    source = ServiceSource(dispatcher.address, trainer="one", num_rounds=3)
    batches = list(source)
    assert sorted(number for batch in batches for number in seqs(batch)) == sorted(3 * list(range(NUM_RECORDS)))
    assert {batch.partition for batch in batches} == {f"{s}/numbers@{round}" for s in range(5) for round in range(3)}
    assert source.state() == {"round": 3, "splits": {}, "done": []}


@pytest.mark.usefixtures("worker")
def test_a_trainer_restored_into_the_round_before_reads_its_rest(dispatcher):
    source = ServiceSource(dispatcher.address, trainer="one", num_rounds=2, splits_in_flight=1, prefetch_batches=1)
    numbers, state = [], None
    for batch in source:
        numbers += seqs(batch)
        if len(numbers) >= 200 and state is None:
            state, kept = json.loads(json.dumps(source.state())), list(numbers)
        if len(numbers) > NUM_RECORDS + 20:
            break
    assert state["round"] == 0 and source.state()["round"] == 1
    source.restore(state)
    assert sorted(kept + [n for batch in source for n in seqs(batch)]) == sorted(2 * list(range(NUM_RECORDS)))


@pytest.mark.usefixtures("worker")
def test_a_trainer_that_leaves_hands_over_its_splits_where_it_is(dispatcher):
    with ServiceSource(dispatcher.address, trainer="one") as leaving:
        numbers = [number for _, batch in zip(range(7), leaving, strict=False) for number in seqs(batch)]
    others = everything(ServiceSource(dispatcher.address, trainer="two"))
    assert len(numbers) > 20
    assert sorted(numbers + others) == list(range(NUM_RECORDS))


def test_a_trainer_lost_for_good_is_replaced_after_its_lease(tmp_path):
    with Dispatcher(settings(tmp_path, lease_seconds=0.5)) as dispatcher:
        with DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, prefetch_batches=2)):
            lost = ServiceSource(dispatcher.address, trainer="lost", prefetch_batches=2)
            batches = iter(lost)
            seen = [seqs(next(batches)) for _ in range(6)]
            lost._membership.report()
            lost._membership.end()
            others = everything(ServiceSource(dispatcher.address, trainer="other"))
            # It has come back from all batches but the last, so that one comes again.
            assert sorted(sum(seen[:-1], others)) == list(range(NUM_RECORDS))
            with pytest.raises(RuntimeError, match="iterate over it anew"):
                next(batches)


@pytest.mark.usefixtures("worker")
def test_two_processes_of_one_name_are_noticed(dispatcher):
    first = iter(one_by_one(dispatcher))
    next(first)
    assert everything(one_by_one(dispatcher)) == list(range(NUM_RECORDS))
    with pytest.raises(FencedError, match=rf"{dispatcher.address}.*trainer 'one'"):
        for _ in first:
            pass


def test_what_fails_in_the_input_is_raised_in_the_trainer(tmp_path):
    with Dispatcher(settings(tmp_path, input=BROKEN_INPUT)) as dispatcher:
        with DataWorker(DataWorkerConfig(dispatcher=dispatcher.address)) as worker:
            source = ServiceSource(dispatcher.address, trainer="one")
            with pytest.raises(RemoteError, match=rf"split \d: .*{worker.address}.*the disk has gone at record 1\d\d"):
                everything(source)


def test_without_a_dispatcher_the_error_names_its_address():
    source = ServiceSource("127.0.0.1:9", trainer="one", patience_seconds=0.3)
    for ask in (lambda: source.schema, lambda: next(iter(source)), lambda: source.restore(source.state())):
        with pytest.raises(TimeoutError, match="dispatcher at 127.0.0.1:9 could not be reached for 0.3 seconds"):
            ask()
    with pytest.raises(TimeoutError, match="127.0.0.1:9"):
        DataWorker(DataWorkerConfig(dispatcher="127.0.0.1:9", patience_seconds=0.3))


def test_without_a_worker_the_error_says_how_to_start_one(dispatcher):
    source = ServiceSource(dispatcher.address, trainer="one", patience_seconds=0.3)
    for ask in (lambda: source.schema, lambda: next(iter(source))):
        with pytest.raises(TimeoutError, match=rf"monolith data-service worker --dispatcher {dispatcher.address}"):
            ask()


def test_a_dispatcher_that_vanishes_ends_trainer_and_worker_with_its_address(tmp_path):
    with Dispatcher(settings(tmp_path, lease_seconds=1.0, worker_timeout_seconds=1.0)) as dispatcher:
        worker = DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, prefetch_batches=1, patience_seconds=2))
        source = ServiceSource(dispatcher.address, trainer="one", patience_seconds=2, prefetch_batches=1)
        batches = iter(source)
        next(batches)
    with worker, pytest.raises(TimeoutError, match=dispatcher.address):
        worker.wait()
    with pytest.raises(TimeoutError, match=dispatcher.address):
        for _ in batches:
            pass


def test_a_worker_that_stops_is_replaced_by_the_next(dispatcher, worker):
    source = ServiceSource(dispatcher.address, trainer="one", splits_in_flight=2, prefetch_batches=2)
    batches = iter(source)
    numbers = [number for _ in range(5) for number in seqs(next(batches))]
    worker.close()
    with DataWorker(DataWorkerConfig(dispatcher=dispatcher.address)) as second:
        assert second.address != worker.address
        assert sorted(numbers + everything(batches)) == list(range(NUM_RECORDS))


def test_workers_that_read_other_columns_are_refused(dispatcher, worker, monkeypatch):
    monkeypatch.setattr("tests.data_service.numbered_input.Numbers.schema", make_source().schema.without("pair"))
    with pytest.raises(RemoteError, match="run the same code everywhere"):
        DataWorker(DataWorkerConfig(dispatcher=dispatcher.address))


def test_a_worker_may_be_bound_to_one_input(dispatcher):
    with pytest.raises(ValueError, match="this worker only 'mine:data'"):
        DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, input="mine:data"))


def test_a_split_nobody_asks_for_is_closed_and_opened_again(tmp_path):
    with Dispatcher(settings(tmp_path, worker_timeout_seconds=0.5)) as dispatcher:
        config = DataWorkerConfig(dispatcher=dispatcher.address, prefetch_batches=1, idle_seconds=0.01)
        with DataWorker(config) as worker:
            batches = iter(ServiceSource(dispatcher.address, trainer="one", prefetch_batches=1))
            numbers = seqs(next(batches))
            gone = threading.Event()
            for _ in range(int(PATIENCE_SECONDS * 100)):
                if not worker._streams or gone.wait(0.01):
                    break
            assert not worker._streams
            assert sorted(numbers + everything(batches)) == list(range(NUM_RECORDS))


def test_a_dispatcher_is_for_one_input_and_its_folder_for_one_dispatcher(tmp_path, dispatcher):
    with pytest.raises(DispatcherInUseError, match=r"process \d+ works with"):
        Dispatcher(settings(tmp_path / "state"))
    dispatcher.close()
    with pytest.raises(ValueError, match="'num_splits': 6"):
        Dispatcher(settings(tmp_path / "state", num_splits=6))
    Dispatcher(settings(tmp_path / "state")).close()


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b'{"format":"monolith data service","version":3,"content":{}}'])
def test_a_damaged_ledger_is_refused(tmp_path, text):
    (tmp_path / "ledger.json").write_bytes(text)
    with pytest.raises(CorruptFileError, match="ledger.json"):
        Dispatcher(settings(tmp_path))


def test_a_ledger_with_any_byte_changed_is_refused_or_says_the_same(tmp_path):
    Dispatcher(settings(tmp_path)).close()
    file = tmp_path / "ledger.json"
    content = file.read_bytes()
    ledger = LedgerFile(tmp_path)
    expected, num_refused = ledger.read(), 0
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert ledger.read() == expected
        except CorruptFileError:
            num_refused += 1
    ledger.close()
    assert num_refused > 0.9 * len(content)


def test_the_status_shows_owner_and_progress(dispatcher, worker):
    source = one_by_one(dispatcher)
    for _, batch in zip(range(14), source, strict=False):
        assert batch
    source.close()
    status = service_status(dispatcher.address)
    first, second = status["rounds"]["0"][:2]
    assert first["done"] and first["owner"] == "one"
    assert not second["done"] and (second["owner"], second["num_batches"]) == ("one", 2)
    assert list(status["workers"]) == [worker.address]
    assert status["trainers"] == {"one": {"lease": False}}


def test_tls(tmp_path, certificates):  # noqa: F811
    mine, other = certificates["server"], certificates["client"]
    with Dispatcher(settings(tmp_path, tls=mine)) as dispatcher:
        with DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, tls=mine)):
            assert everything(ServiceSource(dispatcher.address, trainer="one", tls=other)) == list(range(NUM_RECORDS))
        with pytest.raises(TimeoutError, match=dispatcher.address):
            stranger = certificates["stranger"]
            next(iter(ServiceSource(dispatcher.address, trainer="two", tls=stranger, patience_seconds=0.1)))


def test_batches_of_all_kinds_of_columns_cross_the_wire():
    columns = {
        "scalar": torch.tensor([1, -2]),
        "matrix": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "lists": Ragged.from_lists([[1, 2], []]),
        "none": Ragged.from_lists([[], []], torch.float32),
        "bytes": Ragged.from_lists([[255], [0, 1]], torch.uint8),
        "strided": torch.arange(4)[::2],
    }
    sent = [PlacedBatch(Batch(columns, 3, 9, "p"), {"at": [9]}), PlacedBatch(Batch({}, 9, 9, "p"), {"at": []})]
    heads, arrays = join_batches([pack_batch(placed) for placed in sent])
    frame = b"".join(encode_frame(Message(type=1, meta={"batches": heads}, arrays=arrays)))
    body = np.frombuffer(bytearray(frame[HEADER_BYTES:]), np.uint8)
    message = decode_frame(decode_header(frame[:HEADER_BYTES]), body)
    got = unpack_batches(message.meta["batches"], message.arrays)
    assert [(batch_values(placed.batch), placed.state) for placed in got] == [
        (batch_values(placed.batch), placed.state) for placed in sent
    ]
    with pytest.raises(CorruptFrameError):
        unpack_batches(message.meta["batches"], {})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "'module:callable'"),
        ("no.such.module:make", "no module 'no'"),
        ("tests.data_service.numbered_input:absent", "no callable 'absent'"),
        ("tests.data_service.numbered_input:BATCH", "no callable 'BATCH'"),
    ],
)
def test_an_input_that_is_not_there_is_named(name, words):
    with pytest.raises(ValueError, match=words):
        load_input(name)
