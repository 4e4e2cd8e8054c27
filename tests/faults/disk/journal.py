"""The disk as it was at any moment of a recorded run, and as it is found after a power cut at that moment.

The journal (tests/faults/disk/recorder.c) has each change in order, so a prefix of it is what a kill leaves: a killed
program loses nothing that the kernel has taken. A power cut loses more: of a file what was not synced, of a folder the
names that came after its last sync. What survives all the same differs between file systems, so there are three answers
(``Cut``).
"""

import os
import shutil
import struct
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeAlias

HEAD = struct.Struct("<IcIqqIII")


class Cut(Enum):
    """What survives a power cut of that which was not synced."""

    NOTHING_LOST = "all of it: the program was killed, the machine runs on"
    NAMES_WITHOUT_BYTES = "names, not bytes: a file that was just renamed is empty"
    UNTIL_LAST_SYNC = "all names up to the last sync of any file, as with ext4's journal"
    ONLY_SYNCED = "a name only if its folder was synced, the least that POSIX promises"


@dataclass(frozen=True, slots=True)
class Record:
    """One change, or one line that the program wrote about itself (kind ``m``)."""

    kind: str
    pid: int
    x: int
    y: int
    first: str
    second: str
    data: bytes


def records(journal: Path) -> list[Record]:
    """Read a journal."""
    text, at, found = journal.read_bytes(), 0, []
    while at < len(text):
        total, kind, pid, x, y, first, second, _ = HEAD.unpack_from(text, at)
        start, end = at + HEAD.size, at + total
        names = [text[start : start + first], text[start + first : start + first + second]]
        one, two = (os.fsdecode(name) for name in names)
        data = text[start + first + second : end]
        found.append(Record(kind.decode(), pid, x, y, one, two, data))
        at = end
    return found


@dataclass(slots=True)
class File:
    """A file's bytes now, and those that were synced; a file that was there before has both on disk."""

    source: Path | None = None
    content: bytearray | None = None
    synced: bytes = b""

    def touch(self) -> bytearray:
        """Return the bytes, to change them."""
        if self.content is None:
            self.synced = self.source.read_bytes() if self.source else b""
            self.content = bytearray(self.synced)
        return self.content


@dataclass(slots=True)
class Folder:
    """The names in a folder now, and those that were synced."""

    names: "dict[str, Node]" = field(default_factory=dict)
    synced: "dict[str, Node]" = field(default_factory=dict)


Node: TypeAlias = File | Folder | str
"""A text is a link's target."""


class Disk:
    """A folder, to which a journal is applied change by change."""

    def __init__(self, root: Path, seed: Path) -> None:
        """Begin with the content of ``seed``, which lay at ``root`` when the journal began."""
        self._root = str(root)
        self._top, self._nodes = _read(seed), dict[int, File]()
        self._at_sync = self._image(Cut.NOTHING_LOST)

    def apply(self, change: Record) -> None:
        """Apply one change."""
        match change.kind:
            case "o":
                self._open(change)
            case "w" | "t":
                self._fill(change)
            case "s":
                self._sync(change)
            case "r" | "l":
                self._name(change.second, self._at(change.first))
                if change.kind == "r":
                    self._drop(change.first)
            case "u":
                self._drop(change.first)
            case "d":
                self._name(change.first, Folder())
            case "y":
                self._name(change.second, change.first)

    def write(self, to: Path, cut: Cut = Cut.NOTHING_LOST) -> None:
        """Write the disk, as it is or as it is after a power cut, to a folder."""
        _write(self._image(cut), to)

    def _image(self, cut: Cut) -> "dict[str, Node]":
        if cut is Cut.UNTIL_LAST_SYNC:
            return self._at_sync
        return _frozen(self._top, cut)

    def _open(self, change: Record) -> None:
        if change.y & 1:
            self._name(change.first, File(content=bytearray()))
        node = self._at(change.first)
        if isinstance(node, File):
            self._nodes[change.x] = node
            if change.y & 2:
                node.touch().clear()

    def _fill(self, change: Record) -> None:
        if change.x not in self._nodes:
            return
        content = self._nodes[change.x].touch()
        if change.kind == "t":
            del content[change.y :]
        content.extend(b"\0" * (change.y - len(content)))
        content[change.y : change.y + len(change.data)] = change.data

    def _sync(self, change: Record) -> None:
        node = self._at(change.first) if self._is_below(change.first) else None
        if isinstance(node, Folder):
            node.synced = dict(node.names)
        elif change.x in self._nodes:
            node = self._nodes[change.x]
            node.synced = bytes(node.touch())
        elif isinstance(node, File):
            node.synced = bytes(node.touch())
        self._at_sync = _frozen(self._top, Cut.NAMES_WITHOUT_BYTES)

    def _is_below(self, path: str) -> bool:
        return path == self._root or path.startswith(f"{self._root}/")

    def _parent(self, path: str) -> tuple[Folder, str]:
        node: Node = self._top
        *folders, name = os.path.relpath(path, self._root).split("/")
        for folder in folders:
            assert isinstance(node, Folder), path
            node = node.names[folder]
        assert isinstance(node, Folder), path
        return node, name

    def _at(self, path: str) -> Node | None:
        if path == self._root:
            return self._top
        try:
            folder, name = self._parent(path)
        except KeyError:
            return None
        return folder.names.get(name)

    def _name(self, path: str, node: Node | None) -> None:
        if self._is_below(path) and node is not None:
            folder, name = self._parent(path)
            folder.names[name] = node

    def _drop(self, path: str) -> None:
        folder, name = self._parent(path)
        folder.names.pop(name, None)


def _read(folder: Path) -> Folder:
    found = Folder()
    for each in folder.iterdir():
        if each.name == "_logs" and each.is_dir():
            continue
        if each.is_symlink():
            found.names[each.name] = str(each.readlink())
        else:
            found.names[each.name] = _read(each) if each.is_dir() else File(source=each)
    found.synced = dict(found.names)
    return found


def _frozen(folder: Folder, cut: Cut) -> "dict[str, Node]":
    """Return the names and bytes that a cut leaves."""
    names = folder.synced if cut is Cut.ONLY_SYNCED else folder.names
    left: dict[str, Node] = {}
    for name, node in names.items():
        match node:
            case Folder():
                left[name] = Folder(names=_frozen(node, cut))
            case File(content=None):
                left[name] = node
            case File():
                whole = node.content if cut is Cut.NOTHING_LOST else node.synced
                left[name] = File(content=bytearray(whole or b""))
            case _:
                left[name] = node
    return left


def _write(names: "dict[str, Node]", to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    for name, node in names.items():
        match node:
            case Folder():
                _write(node.names, to / name)
            case File(source=source, content=None) if source is not None:
                shutil.copy2(source, to / name)
            case File():
                (to / name).write_bytes(node.content or b"")
            case _:
                (to / name).symlink_to(node)
