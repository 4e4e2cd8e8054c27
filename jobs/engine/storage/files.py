"""What is done with the files of a place, whether it is in a folder (local_files.py) or on a store (object_files.py)."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

FILE = "file"
"""The scheme of a folder of this machine; that of a store is a setting's."""


class Files(Protocol):
    """A kind of storage; a module is one. What each does is said there, and in ``Place``."""

    def exists(self, path: str) -> bool:
        """See ``Place``."""

    def is_file(self, path: str) -> bool:
        """See ``Place``."""

    def names_from(self, path: str, first: str) -> list[str]:
        """See ``Place``."""

    def names(self, path: str) -> list[str]:
        """See ``Place``."""

    def files(self, path: str) -> Iterator[str]:
        """See ``Place``."""

    def listed(self, path: str) -> Iterator[tuple[str, int, int]]:
        """Yield the path, the bytes and the time of each file; see ``Place``."""

    def size(self, path: str) -> int:
        """See ``Place``."""

    def modified_at(self, path: str) -> datetime:
        """See ``Place``."""

    def read(self, path: str) -> bytes | None:
        """See ``Place``."""

    def stamp(self, path: str) -> str:
        """See ``Place``."""

    def read_last(self, path: str, count: int) -> bytes:
        """See ``Place``."""

    def source(self, path: str) -> Path | BinaryIO:
        """See ``Place``."""

    def written(self, path: str) -> BinaryIO:
        """See ``Place``."""

    def put(self, path: str, content: bytes) -> None:
        """See ``Place``."""

    def create(self, path: str, content: bytes) -> bool:
        """See ``Place``."""

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """See ``Place.tagged``."""

    def create_tagged(self, path: str, content: bytes) -> str | None:
        """See ``Place.exchange``."""

    def replace(self, path: str, content: bytes, tag: str) -> str | None:
        """See ``Place.exchange``."""

    def append(self, path: str, line: bytes) -> None:
        """See ``Place``."""

    def copy(self, path: str, to: str) -> None:
        """See ``Place``."""

    def move(self, path: str, to: str) -> None:
        """See ``Place``."""

    def remove_file(self, path: str) -> None:
        """See ``Place``."""

    def remove(self, path: str, *, if_possible: bool) -> None:
        """See ``Place``."""
