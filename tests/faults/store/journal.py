"""What a command changes in a lake on an object store, request by request, and the lake as a kill after any of them leaves it.

A store has done a request or it has not, so a lake has as many states as there were requests that changed it. Requests that
may change something pass a proxy one after the other; what each has changed is read from the server before the client hears
that it is done.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import obstore

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.object_files import bucket_of
from strandline.engine.lake.place import Place
from tests.support import lakes

CHANGING = ("PUT ", "POST ", "DELETE ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a request has changed.

    Args:
        line: Its first line.
        objects: The new content of each object by its name within the lake; None for one that is gone.
    """

    line: str
    objects: Mapping[str, bytes | None]


@dataclass(slots=True)
class Journal:
    """The requests that changed a lake, in their order."""

    lake: Place
    changes: list[Change] = field(default_factory=list)
    _tags: dict[str, str] = field(default_factory=dict)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Look at what is there before."""
        self._tags = _tags(self.lake)

    def begin(self, head: str) -> bool:
        """Let a request that may change something wait until no other does."""
        if head.startswith(CHANGING):
            self._one.acquire()
        return True

    def end(self, head: str) -> None:
        """Note what it has changed."""
        if head.startswith(CHANGING):
            try:
                self._note(head.partition("\r\n")[0])
            finally:
                self._one.release()

    def made(self, seed: Lake, lake: Lake, count: int) -> Lake:
        """Make the lake as it is after so many changes of another, which began as a third."""
        lakes.copy(seed.root, lake.root)
        final: dict[str, bytes | None] = {}
        for change in self.changes[:count]:
            final |= change.objects
        for name, content in final.items():
            if content is None:
                (lake.root / name).remove()
            else:
                (lake.root / name).put_bytes(content)
        return lake

    def _note(self, line: str) -> None:
        found = _tags(self.lake)
        objects: dict[str, bytes | None] = dict.fromkeys(self._tags.keys() - found.keys())
        for name, tag in found.items():
            if self._tags.get(name) != tag:
                objects[name] = (self.lake / name).bytes()
        self._tags = found
        if objects:
            self.changes.append(Change(line=line, objects=objects))


def contents(lake: Place) -> dict[str, bytes | None]:
    """Return the content of each object of a lake; two of equal content have other tags on Azure."""
    with ThreadPoolExecutor(lakes.AT_ONCE) as pool:
        return dict(pool.map(lambda name: (name, (lake / name).bytes()), sorted(_tags(lake))))


def _tags(lake: Place) -> dict[str, str]:
    """Return the tag of each object of a lake, which changes with its content; without the marks of Hadoop's folders."""
    folder = lake.path.partition("/")[2]
    pages = obstore.list(bucket_of(str(lake)), f"{folder}/")
    return {
        each["path"].removeprefix(f"{folder}/"): str(each["e_tag"])
        for page in pages
        for each in page
        if each["size"]
    }
