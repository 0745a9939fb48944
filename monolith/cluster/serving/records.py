"""What serving processes write into ZooKeeper: JSON in nodes whose paths are those of the original."""

import json
import re
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from typing import Any, Final, Self

ENTRY: Final = "entry"
"""The part of a model that answers requests; also the type of the server that does."""

PS: Final = "ps"
"""The type of a server where rows are read, and deltas taken."""

DENSE: Final = "dense"
"""The type of a server that takes dense weights alone: an entry, where its trainer finds it."""

_SHARD = re.compile(r"ps_(0|[1-9]\d{0,4})")


class ModelState(IntEnum):
    """States of a served model, by the numbers of the original's model server."""

    UNKNOWN = 0
    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


class Record:
    """A node's content as JSON; members that are not known are passed over."""

    def to_bytes(self) -> bytes:
        """Return what the node holds."""
        return json.dumps(asdict(self)).encode()  # type: ignore[call-overload]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return what a node says; a ValueError if it is no such record."""
        try:
            values: dict[str, Any] = json.loads(data)
            known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
            return cls(**{name: value for name, value in values.items() if name in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no {cls.__name__}: {data[:80]!r} ({error})") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaMeta(Record):
    """One server of a model, or of a shard of it.

    >>> one = ReplicaMeta(address="10.0.0.7:8500", model_name="movie", server_type="entry", task=0, replica=3)
    >>> one.path("bz")
    '/bz/service/movie/entry:0/00000000003'
    >>> ReplicaMeta.from_bytes(one.to_bytes()) == one
    True
    """

    address: str | None = None
    address_ipv6: str | None = None
    stat: int = ModelState.UNKNOWN
    model_name: str | None = None
    server_type: str | None = None
    """"entry"; "ps", where rows are read and deltas taken; or "dense", where an entry takes dense weights."""

    task: int = -1
    """The shard, from 0."""

    replica: int = -1
    archon_address: str | None = None
    archon_address_ipv6: str | None = None

    def path(self, bzid: str) -> str:
        """Return the node; the replica of an entry has eleven digits."""
        replica = f"{self.replica:011d}" if self.server_type == ENTRY else str(self.replica)
        return f"/{bzid}/service/{self.model_name}/{self.server_type}:{self.task}/{replica}"

    def get_address(self, use_archon: bool = False, address_family: str = "ipv4") -> str | None:
        """Return where it answers, in this family or else in the other; one for all networks is none."""
        both = (self.archon_address, self.archon_address_ipv6) if use_archon else (self.address, self.address_ipv6)
        ordered = both if address_family == "ipv4" else both[::-1]
        return next((one for one in ordered if one and not one.startswith(("0.0.0.0", "[::]"))), None)


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A part of a model that can be served by itself.

    >>> str(SavedModel("movie", "entry")), SavedModel.parse("movie:ps_1").sub_graph
    ('movie:entry', 'ps_1')
    """

    model_name: str
    sub_graph: str

    def __str__(self) -> str:
        return f"{self.model_name}:{self.sub_graph}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what a text "model:sub_graph" names."""
        model, colon, sub_graph = text.partition(":")
        if not model or not colon or not sub_graph:
            raise ValueError(f"a saved model is written MODEL:SUB_GRAPH, such as movie:entry, got {text!r}")
        return cls(model, sub_graph)


def shard_of(sub_graph: str) -> int | None:
    """Return the number of the shard that a sub graph has the rows of; None if it is no shard.

    >>> shard_of("ps_12"), shard_of("entry"), shard_of("ps_012")
    (12, None, None)
    """
    found = _SHARD.fullmatch(sub_graph)
    return None if found is None else int(found[1])


def delta_server(sub_graph: str) -> tuple[str, int]:
    """Return the type and task of the servers that take the deltas of a sub graph; a ValueError if none does.

    >>> delta_server("ps_1"), delta_server("entry")
    (('ps', 1), ('dense', 0))
    """
    shard = shard_of(sub_graph)
    if shard is None and sub_graph != ENTRY:
        raise ValueError(f"a sub graph is entry, or ps_0, ps_1 and so on, got {sub_graph!r}")
    return (DENSE, 0) if shard is None else (PS, shard)


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetExtraInfo:
    """What is known of a server that takes deltas, beside its address."""

    idc: str | None = None
    cluster: str | None = None
    replica_id: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedModelDeployConfig(Record):
    """Where the versions of a saved model are."""

    model_base_path: str
    version_policy: str = "latest"


@dataclass(frozen=True, slots=True)
class Container:
    """The place that a server runs in."""

    ctx_cluster: str
    ctx_id: str

    def __str__(self) -> str:
        return f"{self.ctx_cluster}:{self.ctx_id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerServiceInfo(Record):
    """Where a container, or one of its servers, answers."""

    grpc: str | None = None
    """Where deltas are taken; of several servers that of the first."""

    http: str | None = None
    archon: str | None = None
    agent: str | None = None
    idc: str | None = None
    debug_info: str | None = None
