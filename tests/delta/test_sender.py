"""What training changes arrives in serving, exactly, whatever goes wrong on the way."""

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from monolith.delta import DeltaPosition, DeltaReceiver, DeltaSender, DeltaSettings
from monolith.embedding import AdagradOptimizer, MultiTable, Segment, TableConfig
from monolith.embedding.entry import Bf16Compressor, FixedR8Compressor, Fp16Compressor, OneBitCompressor
from monolith.errors import FencedError, PlanMismatchError, RemoteError, SecretError
from monolith.wire import Message, SharedSecret
from tests.delta.flaky_serving import TINY, FlakyServing, make_sender, push, train
from tests.delta.table_target import TableTarget, content, training_tables
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def test_everything_first_then_only_what_changed(serving):
    tables = training_tables()
    train(tables, list(range(100)))
    with make_sender(tables, serving) as sender:
        first = push(sender)
        assert (first.full, first.num_rows) == (True, 200)
        assert content(serving.target.tables) == content(tables)
        train(tables, [5, 6])
        tables["uid"].erase(torch.tensor([7, 5]))
        second = push(sender)
        assert (second.full, second.num_rows, second.num_erased) == (False, 3, 2)
        assert content(serving.target.tables) == content(tables)
        third = push(sender)
        assert (third.num_rows, third.num_erased) == (0, 0)
        assert third.position == serving.receiver.freshness.position == DeltaPosition(1, sender.sequence)


def test_an_export_written_under_the_sender_needs_no_full_sync(serving):
    tables = training_tables()
    with make_sender(tables, serving) as sender:
        train(tables, [1, 2, 3])
        serving.load_export(tables, 1, sender.sequence)
        train(tables, [3, 4], seed=1)
        assert not push(sender).full
        assert content(serving.target.tables) == content(tables)
        train(tables, [9], seed=2)
        push(sender)
        serving.load_export(tables, 1, sender.sequence)
        train(tables, [3], seed=3)
        delivery = push(sender)
        assert (delivery.full, delivery.num_rows) == (False, 2)
        assert content(serving.target.tables) == content(tables)


def test_an_export_older_than_what_was_pushed_needs_a_full_sync(serving):
    tables = training_tables()
    with make_sender(tables, serving) as sender:
        train(tables, [1])
        old, sequence = training_tables(), sender.sequence
        push(sender)
        serving.load_export(old, 1, sequence)
        assert push(sender).full
        assert content(serving.target.tables) == content(tables)


def test_a_new_generation_goes_on_from_the_export_it_equals(serving):
    tables = training_tables()
    train(tables, [1, 2])
    serving.load_export(tables, 4, 77)
    with make_sender(tables, serving, generation=5, base=DeltaPosition(4, 77)) as sender:
        train(tables, [2])
        delivery = push(sender)
        assert (delivery.full, delivery.num_rows) == (False, 2)
        assert content(serving.target.tables) == content(tables)


def test_what_an_abandoned_generation_sent_is_gone_after_the_next_one_has_taken_over(serving):
    abandoned = training_tables()
    train(abandoned, [1, 2, 3])
    with make_sender(abandoned, serving, generation=1) as sender:
        push(sender)
        restored = training_tables()
        train(restored, [2], seed=9)
        with make_sender(restored, serving, generation=2) as newer:
            assert push(newer).full
            assert content(serving.target.tables) == content(restored)
            train(abandoned, [1])
            with pytest.raises(FencedError, match="generation 1.*generation 2 has taken over"):
                sender.push_once()
        assert content(serving.target.tables) == content(restored)


def test_a_generation_number_used_again_after_a_crash_is_noticed(serving):
    crashed = training_tables()
    train(crashed, [1, 2, 3])
    make_sender(crashed, serving, generation=2).push_once()
    restored = training_tables()
    train(restored, [2], seed=9)
    with make_sender(restored, serving, generation=2) as sender:
        assert push(sender).full
        assert content(serving.target.tables) == content(restored)


def test_the_same_holds_when_the_clock_was_set_back(serving):
    tables = training_tables()
    train(tables, [1])
    serving.load_export(training_tables(), 2, 2**60)
    with make_sender(tables, serving, generation=2) as sender:
        assert push(sender).full
        assert content(serving.target.tables) == content(tables)
        train(tables, [1, 5])
        assert not push(sender).full
        assert content(serving.target.tables) == content(tables)


def test_another_plan_is_refused_and_other_targets_get_theirs(serving):
    tables, other = training_tables(), FlakyServing(plan_hash=2)
    train(tables, [1])
    with DeltaSender(tables, plan_hash=1, generation=1, targets=[other.address, serving.address]) as sender:
        for _ in range(2):
            with pytest.raises(PlanMismatchError, match=f"{other.address} refused plan 0+1"):
                sender.push_once()
        assert content(serving.target.tables) == content(tables)
        other.load_export(training_tables(), 0, 0, plan_hash=1)
        sender.push_once()
        assert content(other.target.tables) == content(tables)
    other.close()


def test_a_refusal_does_not_hide_that_another_target_failed(serving):
    other = FlakyServing(plan_hash=2)
    with DeltaSender(None, plan_hash=1, generation=1, targets=[other.address, serving.address]) as sender:
        serving.close()
        report = sender.push_each()
        assert not report.deliveries
        assert isinstance(report.failures[serving.address], ConnectionError)
        assert isinstance(report.refusals[other.address], PlanMismatchError)
    other.close()


def test_changes_wait_for_a_receiver_that_is_down(serving):
    tables = training_tables()
    with make_sender(tables, serving) as sender:
        push(sender)
        serving.close()
        for seed in range(3):
            train(tables, [seed, 50], seed=seed)
            tables["mov"].erase(torch.tensor([seed - 1]))
            report = sender.push_once()
            assert isinstance(report.failures[serving.address], ConnectionError)
            assert not report.deliveries
        serving.open()
        delivery = push(sender)
        assert (delivery.full, delivery.num_rows, delivery.num_erased) == (False, 6, 2)
        assert content(serving.target.tables) == content(tables)


@pytest.mark.parametrize("failure", ["before", "after"])
def test_a_message_that_fails_comes_again_with_what_changed_since(serving, failure):
    tables = training_tables()
    with make_sender(tables, serving, settings=TINY) as sender:
        push(sender)
        train(tables, list(range(30)))
        serving.fail = ["none", failure]
        assert isinstance(sender.push_once().failures[serving.address], RemoteError)
        train(tables, [3, 99], seed=1)
        tables["uid"].erase(torch.tensor([4]))
        delivery = push(sender)
        assert not delivery.full
        assert content(serving.target.tables) == content(tables)


def test_a_full_sync_that_fails_starts_over(serving):
    tables = training_tables()
    train(tables, list(range(50)))
    with make_sender(tables, serving, settings=TINY) as sender:
        serving.fail = ["none"] * 4 + ["before"]
        assert sender.push_once().failures
        assert not serving.receiver.freshness.complete
        tables["uid"].erase(torch.tensor(list(range(25))))
        assert push(sender).full
        assert serving.receiver.freshness.complete
        assert content(serving.target.tables) == content(tables)


def test_changes_made_while_a_full_sync_runs_come_with_the_next_delta(serving):
    tables = training_tables()
    train(tables, list(range(50)))
    original, calls = serving.receiver.handle, []

    def train_meanwhile(message: Message) -> Message:
        calls.append(message.type)
        train(tables, [len(calls), 100 + len(calls)], seed=len(calls))
        tables["mov"].erase(torch.tensor([len(calls) - 1]))
        return original(message)

    serving.receiver.handle = train_meanwhile
    with make_sender(tables, serving, settings=TINY) as sender:
        assert push(sender).full
        assert len(calls) > 10
        serving.receiver.handle = original
        assert not push(sender).full
        assert content(serving.target.tables) == content(tables)


def test_more_changes_than_can_be_listed_are_a_full_sync(serving):
    tables = training_tables()
    with make_sender(tables, serving) as sender:
        push(sender)
        train(tables, [1, 2])
        push(sender)
        tables["uid"].clear()  # lists nothing: the tracker overflows
        train(tables, [3])
        assert push(sender).full
        assert content(serving.target.tables) == content(tables)
        train(tables, [4])
        assert not push(sender).full


def test_dense_weights_are_sent_when_their_version_changes(serving):
    tables, version, weights = training_tables(), 1, {"tower.0.weight": torch.arange(6.0).view(2, 3)}
    with make_sender(tables, serving, dense_weights=lambda: (version, weights)) as sender:
        assert push(sender).dense
        np.testing.assert_array_equal(serving.target.dense_weights["tower.0.weight"], [[0, 1, 2], [3, 4, 5]])
        assert not push(sender).dense
        version, weights = 2, {"tower.0.weight": torch.ones(2, 3)}
        serving.fail = ["before"]
        assert sender.push_once().failures
        assert push(sender).dense
        np.testing.assert_array_equal(serving.target.dense_weights["tower.0.weight"], np.ones((2, 3)))


def test_the_watermark_arrives_with_the_rows_it_counts(serving):
    tables, steps = training_tables(), 0

    def watermark() -> dict[str, int]:
        return {"event_seq": steps}

    with make_sender(tables, serving, settings=TINY, watermark=watermark) as sender:
        push(sender)
        train(tables, list(range(40)))
        steps = 40
        serving.fail = ["none", "none", "before"]
        assert sender.push_once().failures
        assert serving.receiver.freshness.watermark == {"event_seq": 0}, "only some of the 40 have arrived"
        push(sender)
        assert serving.receiver.freshness.watermark == {"event_seq": 40}


def test_compressed_rows_are_in_serving_what_stored_weights_would_be_there(serving):
    segments = tuple(
        Segment(4, AdagradOptimizer(learning_rate=0.1), compressor=compressor)
        for compressor in (Fp16Compressor(), Bf16Compressor(), FixedR8Compressor(), OneBitCompressor())
    )
    tables = MultiTable({"uid": TableConfig(name="uid", segments=segments)})
    target, exported = (MultiTable({"uid": TableConfig(name="uid", segments=segments, serving=True)}) for _ in range(2))
    serving.target.tables = target
    ids = torch.arange(256)
    with make_sender(tables, serving) as sender:
        for seed in range(2):  # a full sync, then a delta
            tables["uid"].assign_add(ids, torch.randn(256, 16, generator=torch.Generator().manual_seed(seed)))
            for some_ids, weights in tables["uid"].items():
                exported["uid"].assign(some_ids, weights)
            assert push(sender).full == (seed == 0)
            assert torch.equal(target["uid"].lookup(ids), exported["uid"].lookup(ids))


@pytest.mark.parametrize("seed", range(4))
def test_serving_equals_training_after_any_mixture_of_training_pushes_and_failures(seed):
    chance = random.Random(seed)
    tables, serving, generation = training_tables(), FlakyServing(), 1
    sender = make_sender(tables, serving, settings=TINY)
    try:
        for step in range(120):
            match chance.choices(
                ["train", "erase", "push", "fail", "down", "export", "restore"], [8, 3, 8, 3, 1, 1, 1]
            )[0]:
                case "train":
                    train(tables, chance.sample(range(60), 5), seed=step)
                case "erase":
                    tables[chance.choice(["uid", "mov"])].erase(torch.tensor(chance.sample(range(60), 8)))
                case "push":
                    sender.push_once()
                case "fail":
                    serving.fail = [chance.choice(["none", "before", "after"]) for _ in range(6)]
                case "down":
                    serving.close()
                    sender.push_once()
                    serving.open()
                case "export":
                    position = chance.choice([(generation, sender.sequence), (generation, 0), (0, 0)])
                    serving.load_export(tables, *position)
                case "restore":
                    sender.close()
                    generation += chance.choice([0, 1])
                    sender = make_sender(tables, serving, generation=generation, settings=TINY)
        serving.fail = []
        push(sender)
        assert content(serving.target.tables) == content(tables)
    finally:
        sender.close()
        serving.close()


def test_training_threads_and_pushes_at_the_same_time_end_in_the_same_rows(serving):
    tables, done = training_tables(), threading.Event()

    def keep_training() -> None:
        for step in range(150):
            train(tables, [step % 40, 40 + step % 7], seed=step)
            tables["mov"].erase(torch.tensor([step % 11]))
        done.set()

    with make_sender(tables, serving, settings=TINY) as sender:
        thread = threading.Thread(target=keep_training)
        thread.start()
        while not done.is_set():
            push(sender)
        thread.join(PATIENCE_SECONDS)
        push(sender)
        assert content(serving.target.tables) == content(tables)


def test_a_receiver_process_killed_at_any_message_is_brought_up_to_date_when_it_is_back(tmp_path):
    tables, address = training_tables(), f"unix:{tmp_path}/s"
    train(tables, list(range(40)))
    with DeltaSender(tables, plan_hash=1, generation=1, targets=[address], settings=TINY) as sender:
        for die_at_message in (3, 0):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.delta.receiver_process", address, str(die_at_message)],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            with process:
                assert process.stdout.readline().strip() == address
                report = sender.push_once()
                if die_at_message:
                    assert isinstance(next(iter(report.failures.values())), ConnectionError)
                    assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
                    train(tables, [3, 77], seed=1)
                    continue
                assert report.deliveries[0].full
                tables["mov"].erase(torch.tensor([3]))
                assert not push(sender).full
                got, _ = process.communicate("\n", timeout=PATIENCE_SECONDS)
                rows = {
                    name: {int(id_): bytes.fromhex(row) for id_, row in ids.items()}
                    for name, ids in json.loads(got).items()
                }
                assert rows == content(tables)


def test_a_target_with_another_secret_is_a_failure_and_misses_nothing(tmp_path):
    tables, target = training_tables(), TableTarget()
    receiver = DeltaReceiver(target, plan_hash=1, generation=0, sequence=0)
    ours, theirs = (SharedSecret.made_in_folder(tmp_path / name) for name in ("ours", "theirs"))
    address = f"unix:{tmp_path}/s"
    settings = DeltaSettings(secret=ours)
    with DeltaSender(tables, plan_hash=1, generation=1, targets=[address], settings=settings) as sender:
        train(tables, [1, 2])
        with receiver.listen(address, secret=theirs):
            (failure,) = sender.push_once().failures.values()
            assert isinstance(failure, SecretError)
            assert str(tmp_path / "ours" / "shared.secret") in str(failure)
            assert not target.trail
        train(tables, [2, 3], seed=1)
        with receiver.listen(address, secret=ours):
            push(sender)
            assert content(target.tables) == content(tables)
