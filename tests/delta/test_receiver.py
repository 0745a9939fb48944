"""Which delta messages are applied, acknowledged or refused."""

import threading

import numpy as np
import pytest
import torch

from monolith.delta import DeltaPosition, DeltaReceiver
from monolith.delta.messages import DeltaAnswer, DeltaContent, DeltaType, Status, positions_to_meta
from monolith.errors import CorruptFrameError, NotFiniteError, RemoteError, SecretError
from monolith.wire import Message, SharedSecret, connect
from tests.delta.table_target import TableTarget, content
from tests.patience import PATIENCE_SECONDS

PLAN = 0xFEED_0000_0000_0001


@pytest.fixture
def target() -> TableTarget:
    return TableTarget()


@pytest.fixture
def receiver(target) -> DeltaReceiver:
    return DeltaReceiver(target, plan_hash=PLAN, generation=3, sequence=10)


def mov_rows(**values: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """mov_rows(_7=1.5) is one row of 1.5s for id 7."""
    ids = np.array([int(name[1:]) for name in values], np.int64)
    return {"mov": (ids, np.repeat(np.array(list(values.values()), np.float32)[:, None], 3, axis=1))}


def ask(receiver, type_, sequence, content=None, *, generation=3, plan=PLAN, bases=(), watermark=None) -> DeltaAnswer:
    meta = {"bases": positions_to_meta(bases), "watermark": watermark or {}}
    arrays = (content or DeltaContent()).arrays()
    message = Message(
        type=type_, generation=generation, sequence=sequence, plan_hash=plan, meta=meta, arrays=arrays
    )  # fmt: skip
    return DeltaAnswer.of(receiver.handle(message))


def delta(receiver, sequence, base, content=None, **options) -> DeltaAnswer:
    return ask(receiver, DeltaType.DELTA, sequence, content, bases=[base], **options)


def test_a_delta_that_builds_on_the_position_is_applied(receiver, target):
    answer = delta(receiver, 11, DeltaPosition(3, 10), DeltaContent(mov_rows(_7=1.5)), watermark={"event_seq": 99})
    assert answer == DeltaAnswer(Status.OK, DeltaPosition(3, 11))
    assert target.tables["mov"].lookup(torch.tensor([7])).tolist() == [[1.5, 1.5, 1.5]]
    assert receiver.freshness.position == DeltaPosition(3, 11)
    assert receiver.freshness.watermark == {"event_seq": 99}
    assert receiver.freshness.applied_at_seconds is not None


def test_tombstones_come_first_then_rows_then_weights(receiver, target):
    erased = {"mov": np.array([8]), "uid": np.array([1])}
    delta(receiver, 11, DeltaPosition(3, 10), DeltaContent(mov_rows(_7=1), erased, {"w": np.ones(2, np.float32)}))
    assert target.trail == ["erase mov", "erase uid", "rows mov", "dense"]


def test_a_replay_is_acknowledged_and_not_applied(receiver, target):
    delta(receiver, 11, DeltaPosition(3, 10), DeltaContent(mov_rows(_7=1)))
    before = receiver.freshness
    for sequence in (11, 10, 5):
        answer = delta(receiver, sequence, DeltaPosition(3, 4), DeltaContent(mov_rows(_7=2)))
        assert (answer.status, answer.position) == (Status.OK, DeltaPosition(3, 11))
    assert target.tables["mov"].lookup(torch.tensor([7]))[0, 0] == 1
    assert receiver.freshness == before


def test_a_delta_that_builds_on_less_is_applied(receiver, target):
    # The answer to delta 11 was lost: what it brought comes again, with what changed since, as delta 12.
    delta(receiver, 11, DeltaPosition(3, 10), DeltaContent(mov_rows(_7=1)))
    answer = delta(receiver, 12, DeltaPosition(3, 10), DeltaContent(mov_rows(_7=2, _8=2)))
    assert (answer.status, answer.position) == (Status.OK, DeltaPosition(3, 12))
    assert target.tables["mov"].lookup(torch.tensor([7, 8]))[:, 0].tolist() == [2, 2]


@pytest.mark.parametrize("lost", [11, 12])
def test_after_a_gap_everything_is_asked_for(receiver, target, lost):
    answer = delta(receiver, lost + 1, DeltaPosition(3, lost), DeltaContent(mov_rows(_7=1)))
    assert (answer.status, answer.position) == (Status.FULL, DeltaPosition(3, 10))
    assert not target.trail


def test_two_senders_at_the_same_time_take_turns(receiver, target):
    """The older of two deltas, held up in the middle, must not overwrite the newer one."""
    begun, newer_done = threading.Event(), threading.Event()
    apply_rows = target.apply_rows

    def held_up(table, ids, rows):
        if rows[0, 0] == 1:
            begun.set()
            newer_done.wait(0.3)  # in vain, as long as the newer one has to wait for this one
        apply_rows(table, ids, rows)

    target.apply_rows = held_up
    older = threading.Thread(target=delta, args=(receiver, 11, DeltaPosition(3, 10), DeltaContent(mov_rows(_7=1))))
    older.start()
    assert begun.wait(PATIENCE_SECONDS)
    answer = delta(receiver, 12, DeltaPosition(3, 10), DeltaContent(mov_rows(_7=2)))
    newer_done.set()
    older.join(PATIENCE_SECONDS)
    assert answer == DeltaAnswer(Status.OK, DeltaPosition(3, 12))
    assert receiver.freshness.position == DeltaPosition(3, 12)
    assert target.tables["mov"].lookup(torch.tensor([7]))[0, 0] == 2


def test_an_older_generation_is_refused_whatever_it_sends(receiver, target):
    for type_ in DeltaType:
        answer = ask(receiver, type_, 99, DeltaContent(mov_rows(_7=1)), generation=2, bases=[DeltaPosition(3, 10)])
        assert answer.status == Status.FENCED and "generation 3" in answer.detail
    assert not target.trail


def test_another_plan_is_refused_whatever_it_sends(receiver, target):
    for type_ in DeltaType:
        answer = ask(receiver, type_, 11, DeltaContent(mov_rows(_7=1)), plan=PLAN + 1, bases=[DeltaPosition(3, 10)])
        assert answer.status == Status.PLAN and f"{PLAN:016x}" in answer.detail
    assert not target.trail


def test_a_newer_generation_must_send_everything(receiver, target):
    assert delta(receiver, 12, DeltaPosition(4, 11), generation=4).status == Status.FULL
    assert delta(receiver, 12, DeltaPosition(3, 9), generation=4).status == Status.FULL, "9 is not where we are"
    assert not target.trail


def test_a_newer_generation_may_build_on_exactly_the_export_that_was_loaded(receiver, target):
    answer = delta(receiver, 50, DeltaPosition(3, 10), DeltaContent(mov_rows(_7=1)), generation=4)
    assert (answer.status, answer.position) == (Status.OK, DeltaPosition(4, 50))
    assert delta(receiver, 11, DeltaPosition(3, 10)).status == Status.FENCED


def test_a_full_sync_replaces_everything(receiver, target):
    delta(receiver, 11, DeltaPosition(3, 10), DeltaContent(mov_rows(_1=1, _2=1)))
    target.tables["uid"].assign(torch.tensor([5]), torch.ones(1, 5))
    assert ask(receiver, DeltaType.FULL_BEGIN, 60, generation=4).status == Status.OK
    assert not receiver.freshness.complete
    assert ask(receiver, DeltaType.FULL_ROWS, 60, DeltaContent(mov_rows(_2=2)), generation=4).status == Status.OK
    assert ask(receiver, DeltaType.FULL_ROWS, 60, DeltaContent(mov_rows(_3=3)), generation=4).status == Status.OK
    end = DeltaContent(dense={"w": np.array([7, 8], np.float32)})
    answer = ask(receiver, DeltaType.FULL_END, 60, end, generation=4, watermark={"event_seq": 5})
    assert (answer.status, answer.position) == (Status.OK, DeltaPosition(4, 60))
    rows = {id_: np.frombuffer(row, np.float32).tolist() for id_, row in content(target.tables)["mov"].items()}
    assert rows == {2: [2, 2, 2], 3: [3, 3, 3]}
    assert len(target.tables["uid"]) == 0
    assert target.dense_weights["w"].tolist() == [7, 8]
    assert receiver.freshness.complete and receiver.freshness.watermark == {"event_seq": 5}


def test_an_unfinished_full_sync_is_no_ground_for_deltas(receiver):
    ask(receiver, DeltaType.FULL_BEGIN, 20)
    ask(receiver, DeltaType.FULL_ROWS, 20, DeltaContent(mov_rows(_2=2)))
    for base in (DeltaPosition(3, 10), DeltaPosition(3, 20)):
        assert delta(receiver, 21, base).status == Status.FULL
    assert ask(receiver, DeltaType.FULL_ROWS, 19).status == Status.FULL, "parts of another full sync"
    assert ask(receiver, DeltaType.FULL_BEGIN, 20).status == Status.FULL, "a straggler must not start it over"
    assert ask(receiver, DeltaType.FULL_BEGIN, 22).status == Status.OK
    assert ask(receiver, DeltaType.FULL_ROWS, 20).status == Status.FULL
    assert ask(receiver, DeltaType.FULL_END, 22).status == Status.OK
    assert delta(receiver, 23, DeltaPosition(3, 22)).status == Status.OK


def test_another_export_may_be_adopted(receiver):
    other = TableTarget()
    receiver.adopt(other, plan_hash=PLAN + 1, generation=5, sequence=7)
    assert delta(receiver, 11, DeltaPosition(3, 10)).status == Status.PLAN
    content = DeltaContent(mov_rows(_7=1))
    assert delta(receiver, 8, DeltaPosition(5, 7), content, generation=5, plan=PLAN + 1).status == Status.OK
    assert len(other.tables["mov"]) == 1


NAN, INF = np.float32("nan"), np.float32("inf")
W = np.ones(2, np.float32)

BAD = {
    "unknown weight": {"dense/w": W, "dense/x": W},
    "weight of another shape": {"dense/w": np.ones(3, np.float32)},
    "weight of another type": {"dense/w": np.ones(2, np.float16)},
    "weight that is infinite": {"dense/w": np.array([1, -INF], np.float32)},
    "row that is NaN": {"ids/uid": np.array([5, 6]), "rows/uid": np.array([[1] * 5, [2, NAN, 2, 2, 2]], np.float32)},
    "unknown table": {"ids/x": np.zeros(1, np.int64), "rows/x": np.zeros((1, 3), np.float32)},
    "unknown tombstones": {"erased/x": np.zeros(1, np.int64)},
    "another width": {"ids/mov": np.zeros(1, np.int64), "rows/mov": np.zeros((1, 4), np.float32)},
    "too few rows": {"ids/mov": np.zeros(2, np.int64), "rows/mov": np.zeros((1, 3), np.float32)},
    "ids of another type": {"ids/mov": np.zeros(1, np.int32), "rows/mov": np.zeros((1, 3), np.float32)},
    "rows of another type": {"ids/mov": np.zeros(1, np.int64), "rows/mov": np.zeros((1, 3), np.float16)},
    "no rows": {"ids/mov": np.zeros(1, np.int64)},
    "no ids": {"rows/mov": np.zeros((1, 3), np.float32)},
    "something else": {"secret": np.zeros(1, np.int64)},
}


@pytest.mark.parametrize("arrays", BAD.values(), ids=BAD)
@pytest.mark.parametrize("type_", [DeltaType.DELTA, DeltaType.FULL_ROWS, DeltaType.FULL_END])
def test_content_that_does_not_fit_changes_nothing(receiver, target, arrays, type_):
    sequence = 11
    if type_ != DeltaType.DELTA:
        ask(receiver, DeltaType.FULL_BEGIN, sequence)
    target.tables["uid"].assign(torch.tensor([0]), torch.ones(1, 5))
    before, position = content(target.tables), receiver.freshness.position
    good = DeltaContent(mov_rows(_9=9)).arrays() if "rows/mov" not in arrays and "ids/mov" not in arrays else {}
    good |= {"erased/uid": np.zeros(1, np.int64), "dense/tower.0.weight": np.ones((2, 3), np.float32)}
    message = Message(
        type=type_, generation=3, sequence=sequence, plan_hash=PLAN, meta={"bases": [[3, 10]]}, arrays=good | arrays
    )
    with pytest.raises((CorruptFrameError, NotFiniteError)):
        receiver.handle(message)
    assert not target.trail
    assert content(target.tables) == before
    assert not any(weight.any() for weight in target.dense_weights.values())
    assert receiver.freshness.position == position


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_row_or_weight_that_is_not_finite_is_named(receiver, target, value):
    rows = np.ones((3, 3), np.float32)
    rows[1, 2] = value
    with pytest.raises(NotFiniteError, match=f"table 'mov', id -8: float 2 of its row is {value}"):
        delta(receiver, 11, DeltaPosition(3, 10), DeltaContent({"mov": (np.array([7, -8, 9]), rows)}))
    weight = np.full((2, 3), 1, np.float32)
    weight[1, 0] = value
    with pytest.raises(NotFiniteError, match=f"dense weight 'tower.0.weight': element 3 .* is {value}"):
        delta(receiver, 11, DeltaPosition(3, 10), DeltaContent(dense={"tower.0.weight": weight}))
    assert not target.trail


def test_a_weight_that_was_exported_infinite_may_stay_so(receiver, target):
    target.dense_weights["w"] = np.array([INF, 1], np.float32)
    weights = DeltaContent(dense={"w": np.array([INF, 2], np.float32)})
    assert delta(receiver, 11, DeltaPosition(3, 10), weights).status == "ok"
    assert target.dense_weights["w"].tolist() == [INF, 2]


@pytest.mark.parametrize(
    "meta",
    [
        {},
        *({"bases": bases} for bases in (3, [[1]], [["3", "10"]], [[3.0, 10.0]], [[3.5, 10]], ["31"], [[3, True]])),
        *({"bases": [[3, 10]], "watermark": watermark} for watermark in ([1], {"event_seq": True})),
        *({"bases": [[3, 10]], "part": part} for part in (0, [0], [2, 2], [0, 0], [True, 2], [None, 65_537])),
    ],
)
def test_meta_data_that_does_not_fit_is_an_error_for_the_sender_only(receiver, target, meta):
    message = Message(type=DeltaType.DELTA, generation=3, sequence=11, plan_hash=PLAN, meta=meta)
    with receiver.listen("127.0.0.1:0", insecure=True) as server, connect(server.address) as client:
        with pytest.raises(RemoteError, match="positions it builds on|watermark is|a part is"):
            client.request(message, PATIENCE_SECONDS)
        with pytest.raises(RemoteError, match="type 1"):
            client.request(Message(type=1, plan_hash=PLAN), PATIENCE_SECONDS)
    assert not target.trail


def test_a_stranger_cannot_empty_the_tables_by_a_full_sync_of_a_huge_generation(receiver, target):
    target.tables["mov"].assign(torch.tensor([7]), torch.ones(1, 3))
    secret = SharedSecret.new("the export folder")
    begin, end = (
        Message(type=type_, generation=2**63, sequence=2**63, plan_hash=PLAN)
        for type_ in (DeltaType.FULL_BEGIN, DeltaType.FULL_END)
    )
    with receiver.listen("127.0.0.1:0", secret=secret) as server:
        for guess in (None, SharedSecret.new("a guess")):
            for message in (begin, end):
                with pytest.raises(SecretError), connect(server.address, secret=guess) as stranger:
                    stranger.request(message, PATIENCE_SECONDS)
        assert len(target.tables["mov"]) == 1
        assert receiver.freshness.position == DeltaPosition(3, 10)
        with connect(server.address, secret=secret) as trainer:
            assert DeltaAnswer.of(trainer.request(begin, PATIENCE_SECONDS)).status == Status.OK
            assert DeltaAnswer.of(trainer.request(end, PATIENCE_SECONDS)).status == Status.OK
    assert len(target.tables["mov"]) == 0


def test_without_secret_and_certificates_nobody_listens_unless_told_so(receiver):
    with pytest.raises(ValueError, match=r"could replace the model; pass secret=.*or insecure=True"):
        receiver.listen("127.0.0.1:0")
