"""Streams of impressions and actions, a source that plays them, and the join written event by event."""

import random
from dataclasses import dataclass

import torch

from monolith.data import Batch, Schema

SCHEMA = Schema.of(req_id="int64", item_id="int64", req_time="int64", kind="int64", action="int64", seq="int64")


@dataclass(frozen=True)
class Event:
    key: tuple[int, int]
    time: int
    kind: int
    action: int
    seq: int


class Played:
    """A source of partitions in memory; `order` (names of partitions, one per batch) is the interleaving."""

    schema = SCHEMA

    def __init__(self, partitions, batch_size, order=None):
        self.partitions, self.batch_size = partitions, batch_size
        rounds = max(-(-len(events) // batch_size) for events in partitions.values())
        self.order = order or [name for _ in range(rounds) for name in partitions]
        self.turn = 0
        self.position = dict.fromkeys(partitions, 0)

    def __iter__(self):
        while self.turn < len(self.order):
            name = self.order[self.turn]
            first = self.position[name]
            events = self.partitions[name][first : first + self.batch_size]
            self.turn += 1
            self.position[name] = first + len(events)
            if events:
                yield Batch(columns_of(events), first, first + len(events), name)

    def state(self):
        return {"turn": self.turn, "position": dict(self.position)}

    def restore(self, state):
        self.turn, self.position = state["turn"], dict(state["position"])

    def shard(self, num_shards, index):
        names = sorted(self.partitions)[index::num_shards]
        return Played({name: self.partitions[name] for name in names}, self.batch_size)


def columns_of(events):
    rows = [(*event.key, event.time, event.kind, event.action, event.seq) for event in events]
    table = torch.tensor(rows, dtype=torch.int64).reshape(-1, 6)
    return {name: table[:, place].contiguous() for place, name in enumerate(SCHEMA.names)}


def made_partition(seed, count, *, num_keys, disorder, late_share=0.02, partition=0):
    """Events whose times run forward by about a second each, jitter by `disorder`, and sometimes are far too old."""
    random_ = random.Random(seed)
    now, events = 1000.0, []
    for seq in range(count):
        now += random_.choice([0, 0, 1, 1, 3])
        jitter = random_.randint(0, disorder) if random_.random() > late_share else disorder + random_.randint(1, 60)
        kind = int(random_.random() < 0.5)
        # Keys of one partition only, as a topic that is divided by key has them; most come back within the window.
        key = (partition * 1000 + (int(now) // 20 + random_.randrange(num_keys)), random_.randrange(2))
        events.append(Event(key, max(0, int(now) - jitter), kind, random_.randrange(1, 4) if kind else 0, seq))
    return events


def join_one_by_one(partitions, *, window, lateness, step, flush, positive=None):
    """Return the joined batches as (first, last, [(seq, key, actions, label)]), and the numbers of late and doubled."""
    in_time, latest, num_late = [], {}, 0
    for name in sorted(partitions):
        newest = -(10**9)
        for place, event in enumerate(partitions[name]):
            if event.time < newest - lateness:
                num_late += 1
                continue
            newest = max(newest, event.time)
            in_time.append((event.time, name, place, event))
        latest[name] = newest
    in_time.sort(key=lambda row: row[:3])
    watermark = 10**12 if flush else min(latest.values()) - lateness
    batches, num_duplicates = {}, 0
    for place, (time, _, _, event) in enumerate(in_time):
        first = (time + window) // step * step
        if event.kind or first + step > watermark:
            continue
        earlier = (row for row in in_time[:place] if time - row[0] <= window)
        if any(other.kind == 0 and other.key == event.key for *_, other in earlier):
            num_duplicates += 1
            continue
        actions = [e.action for t, _, _, e in in_time if e.kind and e.key == event.key and time <= t <= time + window]
        label = float(any(positive is None or action in positive for action in actions))
        batches.setdefault(first, []).append((event.seq, event.key, actions, label))
    return [(first, first + step, rows) for first, rows in sorted(batches.items())], num_late, num_duplicates


def rows_of(batch):
    columns = batch.columns
    keys = zip(columns["req_id"].tolist(), columns["item_id"].tolist(), strict=True)
    rows = zip(columns["seq"].tolist(), keys, columns["actions"].to_list(), columns["label"].tolist(), strict=True)
    return batch.first, batch.last, list(rows)
