"""A serving process in miniature that can be told to fail, and a sender for it."""

import tempfile

import torch

from monolith.delta import Delivery, DeltaReceiver, DeltaSender, DeltaSettings
from monolith.embedding import MultiTable
from monolith.wire import Message, listen
from tests.delta.table_target import DIMS, TableTarget

QUICK = DeltaSettings(connect_timeout_seconds=5, request_timeout_seconds=20)
# So small that every change of more than a few rows is several messages.
TINY = DeltaSettings(connect_timeout_seconds=5, request_timeout_seconds=20, max_message_bytes=200)


def train(tables: MultiTable, ids: list[int], seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    tables.apply_gradients(
        {name: (torch.tensor(ids), torch.randn(len(ids), dim, generator=generator)) for name, dim in DIMS.items()}
    )


class FlakyServing:
    """A receiver that listens, can be closed, opened again at the same address, and told to fail."""

    def __init__(self, *, plan_hash: int = 1, generation: int = 0, sequence: int = 0) -> None:
        self.target = TableTarget()
        self.receiver = DeltaReceiver(self.target, plan_hash=plan_hash, generation=generation, sequence=sequence)
        self.fail: list[str] = []
        self.types: list[int] = []
        # No port: somebody else could take it while this is closed.
        self._folder = tempfile.TemporaryDirectory()
        self.server = listen(f"unix:{self._folder.name}/s", self.handle)
        self.address = self.server.address

    def handle(self, message: Message) -> Message:
        failure = self.fail.pop(0) if self.fail else "none"
        if failure == "before":
            raise RuntimeError("failed before it was applied")
        reply = self.receiver.handle(message)
        self.types.append(message.type)
        if failure == "after":
            raise RuntimeError("failed after it was applied")
        return reply

    def close(self) -> None:
        self.server.close()

    def open(self) -> None:
        self.server = listen(self.address, self.handle)

    def load_export(self, tables: MultiTable, generation: int, sequence: int, plan_hash: int = 1) -> None:
        """Become a fresh process that loaded an export of these tables."""
        self.target = TableTarget()
        for name, table in tables.tables.items():
            for ids, rows in table.items():
                self.target.apply_rows(name, ids, rows)
        self.receiver.adopt(self.target, plan_hash=plan_hash, generation=generation, sequence=sequence)


def make_sender(tables, serving, *, generation=1, settings=QUICK, **options) -> DeltaSender:
    return DeltaSender(
        tables, plan_hash=1, generation=generation, targets=[serving.address], settings=settings, **options
    )


def push(sender: DeltaSender) -> Delivery:
    report = sender.push_once()
    assert not report.failures, report.failures
    return report.deliveries[0]
