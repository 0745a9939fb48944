"""What can be on a disk after the power went at some moment of a recorded series of file operations.

Only what was synced is sure. Of the rest, each change of a folder may have reached the disk or not, in any order, and a
file may be empty, cut, full of holes, or whole.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512


@dataclass(frozen=True)
class Operation:
    """One line of the log."""

    kind: str
    path: str
    other: str = ""


@dataclass(eq=False)
class Node:
    """A file or a folder, whatever its name at the moment."""

    is_folder: bool
    entries: dict[str, "Node"] = field(default_factory=dict)
    durable: dict[str, "Node"] = field(default_factory=dict)
    """The entries that are on the disk for sure."""

    synced: bytes = b""
    is_synced: bool = False
    versions: list[bytes] = field(default_factory=list)
    """What it holds at each of its syncs, those to come included."""


Change = list[tuple[Node, str, Node | None]]
"""Entries of folders that are set or taken away all at once."""


def read_log(folder: Path) -> list[Operation]:
    """The operations that `file_log.c` wrote down.

    safetensors renames its files by system calls of its own, which nobody can listen to: its `.tmp` file has the name
    at the next sync at the latest.
    """
    operations: list[Operation] = []
    nameless: dict[str, list[str]] = {}  # by folder; the one that was written last is synced first
    for line in (folder / "log").read_text().splitlines():
        operation = Operation(*line.split("\t"))
        parent, _, name = operation.path.rpartition("/")
        if operation.kind == "create" and name.startswith(".tmp"):
            nameless.setdefault(parent, []).append(operation.path)
        if operation.kind == "sync" and name.endswith(".safetensors") and nameless.get(parent):
            operations.append(Operation("rename", nameless[parent].pop(), operation.path))
        operations.append(operation)
    return operations


class Disk:
    """Folders and files below `root` while operations are done to them."""

    def __init__(self, root: str, contents: dict[str, bytes]) -> None:
        self._root = root
        self._contents = contents
        self.top = Node(True)
        self.pending: list[Change] = []

    def apply(self, operation: Operation, upcoming: bytes) -> None:
        """Do one operation; `upcoming` is what a file that it makes or empties will hold when it is synced."""
        parent, name = self._place(operation.path)
        if operation.kind in ("create", "mkdir"):
            node = Node(operation.kind == "mkdir", versions=[upcoming])
            self._change([(parent, name, node)])
        elif operation.kind == "truncate":
            node = parent.entries[name]
            node.is_synced, node.versions = False, [upcoming]
        elif operation.kind == "rename":
            target, new_name = self._place(operation.other)
            self._change([(parent, name, None), (target, new_name, parent.entries[name])])
        elif operation.kind in ("unlink", "rmdir"):
            self._change([(parent, name, None)])
        elif operation.kind == "sync":
            node = parent.entries[name]
            node.synced, node.is_synced = self._contents[operation.other], True
        else:
            self._sync_folder(self._node(operation.path))

    def after_power_loss(self, dice: random.Random) -> Iterator[tuple[str, bytes | None]]:
        """Every file, with what it holds, and every folder, with None, of one possible disk; paths are relative."""
        kept: dict[Node, dict[str, Node]] = {}
        chance = dice.choice([0.0, 0.2, 0.5, 0.8, 1.0])
        for change in self.pending:
            if dice.random() < chance:
                for folder, name, node in change:
                    _set(kept.setdefault(folder, dict(folder.durable)), name, node)
        waiting = [("", self.top)]
        while waiting:
            path, node = waiting.pop()
            if node.is_folder:
                if path:
                    yield path, None
                children = kept.get(node, node.durable)
                waiting += [(f"{path}/{name}" if path else name, child) for name, child in children.items()]
            else:
                yield path, node.synced if node.is_synced else _torn(node, dice)

    def _change(self, change: Change) -> None:
        for folder, name, node in change:
            _set(folder.entries, name, node)
        self.pending.append(change)

    def _sync_folder(self, folder: Node) -> None:
        for change in [one for one in self.pending if any(node is folder for node, _, _ in one)]:
            for node, name, entry in change:
                _set(node.durable, name, entry)
            self.pending.remove(change)

    def _place(self, path: str) -> tuple[Node, str]:
        folder, _, name = path.rpartition("/")
        return (self._node(folder) if len(folder) >= len(self._root) else self.top), name

    def _node(self, path: str) -> Node:
        node = self.top
        for name in path[len(self._root) :].split("/"):
            node = node.entries[name] if name else node
        return node


def upcoming_contents(operations: list[Operation], contents: dict[str, bytes]) -> dict[int, bytes]:
    """By the number of an operation that makes or empties a file: what the file holds when it is next synced.

    One that never is may hold anything.
    """
    made: dict[str, int] = {}
    upcoming: dict[int, bytes] = {}
    for number, operation in enumerate(operations):
        if operation.kind in ("create", "truncate"):
            made[operation.path] = number
            upcoming[number] = b"never synced" * 100
        elif operation.kind == "rename":
            for path in [one for one in made if one == operation.path or one.startswith(operation.path + "/")]:
                made[operation.other + path[len(operation.path) :]] = made.pop(path)
        elif operation.kind == "sync" and operation.path in made:
            upcoming[made.pop(operation.path)] = contents[operation.other]
    return upcoming


def _set(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _torn(node: Node, dice: random.Random) -> bytes:
    whole = node.versions[0]
    kind = dice.choice(["old", "whole", "cut", "holes", "zeros"])
    if kind == "old":
        return node.synced
    if kind == "cut":
        return whole[: dice.randrange(len(whole) + 1)]
    if kind == "zeros":
        return bytes(len(whole))
    if kind == "holes":
        sectors = [whole[first : first + SECTOR] for first in range(0, len(whole), SECTOR)]
        return b"".join(one if dice.random() < 0.5 else bytes(len(one)) for one in sectors)
    return whole
