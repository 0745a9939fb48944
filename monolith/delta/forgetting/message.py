"""Ids that serving tables must forget at once: a message that asks for it, whatever the position of the receiver."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import torch

from monolith.delta.messages import FORGET_TYPE, DeltaContent, Status
from monolith.embedding.multi_table import MultiTable
from monolith.wire import Client, Message, SharedSecret, TlsConfig

_ANSWER_SECONDS = 60.0


def forget_in_tables(held: Iterable[MultiTable], message: Message) -> Message:
    """Remove the rows that a message names from these tables; the answer has the ids that had one, by table.

    Tables that are not here are passed over. Positions stay as they are: deltas come as before.
    """
    found: dict[str, set[int]] = {}
    asked = DeltaContent.of(message).erased
    for tables in held:
        for name in asked.keys() & tables.tables.keys():
            ids = torch.from_numpy(asked[name].copy())
            found.setdefault(name, set()).update(ids[tables[name].contains(ids)].tolist())
            tables[name].erase(ids)
    rows = {name: sorted(ids) for name, ids in found.items()}
    return Message(type=message.type, meta={"status": Status.OK.value, "detail": "", "rows": rows})


def ask_to_forget(
    address: str,
    ids: Mapping[str, Collection[int]],
    *,
    secret: SharedSecret | None = None,
    tls: TlsConfig | None = None,
    timeout_seconds: float = _ANSWER_SECONDS,
) -> dict[str, list[int]]:
    """Let the server that takes deltas at an address forget ids, by table; return the ids that had a row there.

    They are gone from every version in its memory when this returns. `ConnectionError` if nobody answers.
    """
    arrays = {f"erased/{name}": np.array(sorted(these), np.int64) for name, these in ids.items()}
    with Client(address, secret=secret, tls=tls) as client:
        reply = client.request(Message(type=FORGET_TYPE, arrays=arrays), timeout_seconds)
    return {str(name): list(these) for name, these in reply.meta["rows"].items()}
