"""A receiver in a process of its own: prints its address, then answers each line it reads with its content."""

import json
import os
import signal
import sys

from monolith.delta import DeltaReceiver
from monolith.wire import Message, listen
from tests.delta.table_target import TableTarget, content


def main(address: str, die_at_message: int) -> None:
    """Listen; kill this process in the middle of handling message number `die_at_message`, if that is not 0."""
    target = TableTarget()
    receiver = DeltaReceiver(target, plan_hash=1, generation=0, sequence=0)
    handled = 0

    def handle(message: Message) -> Message:
        nonlocal handled
        handled += 1
        reply = receiver.handle(message)
        if handled == die_at_message:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    with listen(address, handle) as server:
        print(server.address, flush=True)
        for _ in sys.stdin:
            rows = {
                table: {id_: row.hex() for id_, row in ids.items()} for table, ids in content(target.tables).items()
            }
            print(json.dumps(rows), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
