"""A place in a lake: a value with a scheme and a path, and the few things that the program does with small files.

It is no ``pathlib.Path``, for two reasons. ``str(Path("s3a://lake/x"))`` is ``s3a:/lake/x``, which Spark reads as another
lake, while a place's text is what Spark, Delta and delta-rs accept. And a path has forty methods, of which an object store
has five: code that has a place cannot list a tree, follow a link or hold a file open by accident.

Beside tables, a lake has small files: a heartbeat, a gate, a certificate. They are read whole and replaced whole, so a
reader sees the old text or the new, never a mix; what a verb has written is there after a power cut. What needs a real folder (a lock, a log of a program, Spark's scratch)
asks for ``local``.

Only the scheme ``file`` can be used today.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from uuid import uuid4

from jobs.core.errors import DefinitionError
from jobs.engine.storage.durable import make, sync, sync_all

FILE = "file"
Content: TypeAlias = bytes
"""A file's content; within ``Place`` the name ``bytes`` is that of a method."""
URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<path>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A folder or a file, whether or not it exists.

    Args:
        path: For the scheme ``file`` a path of this machine.
        scheme: How it is reached.

    >>> str(Place("lake/silver", "s3a") / "readings")
    's3a://lake/silver/readings'
    """

    path: str
    scheme: str = FILE

    @classmethod
    def of(cls, words: "str | os.PathLike[str]") -> "Place":
        """Return the place that a user names by a path or an address.

        Raises:
            DefinitionError: It is on a store that cannot be used.
        """
        if isinstance(words, Place):
            return words
        text = os.fspath(words)
        address = URL.fullmatch(text)
        if address is None:
            return cls(str(Path(text).expanduser().absolute()))
        if address["scheme"].lower() != FILE or not address["path"].startswith("/"):
            raise DefinitionError(
                f"a lake is a folder of this machine today, and {text} is none",
                hint="choose a folder with --lake or STRANDLINE_LAKE.",
                lake=text,
            )
        return cls(address["path"])

    def __truediv__(self, name: str) -> "Place":
        return Place(str(PurePosixPath(self.path) / name), self.scheme)

    def __str__(self) -> str:
        return self.path if self.scheme == FILE else f"{self.scheme}://{self.path}"

    def __fspath__(self) -> str:
        return str(self.local)

    @property
    def local(self) -> Path:
        """Return its path, for what needs a file of this machine.

        Raises:
            DefinitionError: It is on a store.
        """
        if self.scheme != FILE:
            raise DefinitionError(
                f"{self} is no file of this machine",
                hint="choose a folder with --lake or STRANDLINE_LAKE.",
                lake=str(self),
            )
        return Path(self.path)

    @property
    def name(self) -> str:
        """Return the last part of its path."""
        return PurePosixPath(self.path).name

    @property
    def parent(self) -> "Place":
        """Return the folder that it lies in."""
        return Place(str(PurePosixPath(self.path).parent), self.scheme)

    def below(self, folder: "Place") -> str:
        """Return its path as seen from a folder above it."""
        return str(PurePosixPath(self.path).relative_to(folder.path))

    def exists(self) -> bool:
        """Return whether there is a file or a folder."""
        return self.local.exists()

    def names(self) -> list[str]:
        """Return the names of what lies in a folder, sorted; none where there is no folder."""
        try:
            return sorted(each.name for each in self.local.iterdir())
        except FileNotFoundError:
            return []

    def text(self) -> str | None:
        """Return a file's text; None where there is no file."""
        try:
            return self.local.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def bytes(self) -> bytes | None:
        """Return a file's content; None where there is no file, or a link, which may lead out of the lake."""
        is_own = self.local.is_file() and not self.local.is_symlink()
        return self.local.read_bytes() if is_own else None

    def put(self, text: str) -> None:
        """Write a file; a reader sees the old text or the new, never a mix."""
        self.put_bytes(text.encode("utf-8"))

    def put_bytes(self, content: Content) -> None:
        """Write a file that is no text in the same way."""
        draft = self.parent.make().local / f".{self.name}.{uuid4().hex}"
        _write(draft, content)
        draft.replace(self.local)
        sync(draft.parent)

    def create(self, text: str) -> bool:
        """Write a file that does not exist, whole; return False where it exists, also by another process meanwhile."""
        draft = self.parent.make().local / f".{self.name}.{uuid4().hex}"
        _write(draft, text.encode("utf-8"))
        try:
            self.local.hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        sync(draft.parent)
        return True

    def append(self, line: str) -> None:
        """Append a line to a file that is never cut."""
        parent = self.parent.make()
        with self.local.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        sync_all([self.local], within=parent.local)

    def make(self) -> "Place":
        """Create the folder with those above it, unless it exists, and return the place."""
        make(self.local)
        return self

    def move(self, to: "Place") -> None:
        """Rename a file or a folder; a file at the new place is replaced."""
        target = to.parent.make().local / to.name
        self.local.replace(target)
        sync(target.parent)
        sync(self.local.parent)

    def remove(self, *, if_possible: bool = False) -> None:
        """Remove a file or a link, or a folder with all that it holds; nothing where there is none.

        Args:
            if_possible: Whether files of the folder may stay that another program still writes.
        """
        if self.local.is_dir() and not self.local.is_symlink():
            shutil.rmtree(self.local, ignore_errors=if_possible)
        else:
            self.local.unlink(missing_ok=True)


def _write(draft: Path, content: Content) -> None:
    draft.write_bytes(content)
    sync(draft)
