"""The state of a key: a small head, and queues of rows in the order of their time, in pieces.

Why pieces: an address shared by a thousand devices had 75 minutes of connections in one JSON value, which was
read and written whole at each batch. Measured with 2,000,000 rows and a batch of 1,000, the step alone: 18.2 s and 2.1 GB
of Python before, 0.03 s and 0.12 GB with pieces; a batch reads two pieces and writes four.

A queue of few rows is kept in the head itself, so that a key with little state costs one value, as before. Only the
head's list of pieces grows with the number of rows, by some 40 bytes for 500 rows.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from strandline.core.errors import DataError

Kept: TypeAlias = dict[str, Any]
"""A row in a queue, in values that JSON knows."""

Order: TypeAlias = Callable[[Kept], list[Any]]
"""Returns the sort key of a row; the microsecond of its time comes first."""

PIECE = 500
"""The most rows of a piece."""


class Pieces(Protocol):
    """A store of pieces, each under its number."""

    def read(self, number: int) -> str:
        """Return a piece."""

    def write(self, number: int, text: str) -> None:
        """Write a piece, over the one with its number."""

    def remove(self, number: int) -> None:
        """Remove a piece."""


class InMemory:
    """Pieces in memory, which last as long as the process does."""

    def __init__(self) -> None:
        """Begin without pieces."""
        self.texts: dict[int, str] = {}

    def read(self, number: int) -> str:
        """Return a piece."""
        return self.texts[number]

    def write(self, number: int, text: str) -> None:
        """Write a piece, over the one with its number."""
        self.texts[number] = text

    def remove(self, number: int) -> None:
        """Remove a piece."""
        del self.texts[number]


class _Piece:
    """Consecutive rows, read when they are needed."""

    def __init__(
        self,
        lowest: list[Any],
        last: int,
        count: int,
        number: int | None,
        rows: list[Kept] | None = None,
    ) -> None:
        self.lowest = lowest
        self.last = last
        self.count = count
        self.number = number
        self.rows = rows
        self.is_changed = number is None


class Waiting:
    """A queue of rows in the order of their time."""

    def __init__(
        self, saved: Kept, order: Order, pieces: Pieces, number: Callable[[], int]
    ) -> None:
        """Open a queue as ``save`` left it.

        Args:
            saved: What ``save`` returned; the queue is empty when this is.
            order: The sort key of rows.
            pieces: The store of pieces.
            number: Gives each new piece its number.
        """
        self._order = order
        self._store = pieces
        self._number = number
        self._gone: list[int] = []
        self._pieces = [_Piece(*each) for each in saved.get("pieces", ())]
        if saved.get("rows"):
            self._pieces = [self._new(saved["rows"])]

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(piece.count for piece in self._pieces)

    @property
    def first(self) -> int | None:
        """Return the moment of the first row."""
        return self._pieces[0].lowest[0] if self._pieces else None

    @property
    def last(self) -> int | None:
        """Return the moment of the last row."""
        return self._pieces[-1].last if self._pieces else None

    def add(self, rows: Iterable[Kept]) -> None:
        """Add rows to the queue."""
        coming: dict[int, list[Kept]] = {}
        lowest = [piece.lowest for piece in self._pieces]
        for row in rows:
            place = max(bisect_right(lowest, self._order(row)) - 1, 0)
            coming.setdefault(place, []).append(row)
        for place in sorted(coming, reverse=True):
            before = self._pieces[place : place + 1]
            both = [*self._rows(before[0]), *coming[place]] if before else coming[place]
            is_last = place >= len(self._pieces) - 1
            divided = [self._new(each) for each in _divided(sorted(both, key=self._order), is_last)]
            if before:  # its number stays with the first part
                divided[0].number = before[0].number
            self._pieces[place : place + 1] = divided

    def pop(self, until: int) -> list[Kept]:
        """Remove the rows up to a moment, and return them in their order."""
        popped: list[Kept] = []
        while self._pieces and self._pieces[0].lowest[0] <= until:
            piece = self._pieces.pop(0)
            rows = self._rows(piece)
            cut = bisect_right(rows, until, key=self._moment)
            popped += rows[:cut]
            if cut < len(rows):
                rest = self._new(rows[cut:])
                rest.number = piece.number
                self._pieces.insert(0, rest)
            elif piece.number is not None:
                self._gone.append(piece.number)
        return popped

    def drop(self, until: int) -> None:
        """Remove the rows up to a moment, without reading pieces that go whole."""
        cut = 0
        while cut < len(self._pieces) and self._pieces[cut].last <= until:
            cut += 1
        self._gone += [each.number for each in self._pieces[:cut] if each.number is not None]
        del self._pieces[:cut]
        self.pop(until)

    def since(self, moment: int) -> Iterator[Kept]:
        """Yield the rows from a moment on."""
        for piece in self._pieces[self._reaching(moment) :]:
            rows = self._rows(piece)
            yield from rows[bisect_left(rows, moment, key=self._moment) :]

    def revise(self, since: int, change: Callable[[Kept], bool]) -> None:
        """Apply a change to the rows from a moment on; it returns whether it changed the row."""
        for piece in self._pieces[self._reaching(since) :]:
            rows = self._rows(piece)
            begin = bisect_left(rows, since, key=self._moment)
            changed = [change(row) for row in rows[begin:]]
            piece.is_changed |= any(changed)

    def before(self, moment: int) -> Kept | None:
        """Return the last row that lies before a moment."""
        for piece in reversed(self._pieces[: self._reaching(moment) + 1]):
            rows = self._rows(piece)
            cut = bisect_left(rows, moment, key=self._moment)
            if cut:
                return rows[cut - 1]
        return None

    def save(self) -> Kept:
        """Write the changed pieces, and return what the head must keep of the queue."""
        if len(self._pieces) == 1 and self._pieces[0].count <= PIECE:
            (piece,) = self._pieces
            rows = self._rows(piece)
            self._forget([*self._gone, *([piece.number] if piece.number is not None else [])])
            return {"rows": rows}
        self._forget(self._gone)
        for piece in self._pieces:
            if piece.is_changed:
                piece.number = self._number() if piece.number is None else piece.number
                self._store.write(piece.number, _text(self._rows(piece)))
        listed = [[each.lowest, each.last, each.count, each.number] for each in self._pieces]
        return {"pieces": listed} if listed else {}

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._store.remove(number)

    def _reaching(self, moment: int) -> int:
        """Return the first piece whose rows may reach a moment."""
        return bisect_left(self._pieces, moment, key=lambda piece: piece.last)

    def _rows(self, piece: _Piece) -> list[Kept]:
        if piece.rows is None:
            piece.rows = json.loads(self._store.read(int(piece.number or 0)))
        return piece.rows

    def _new(self, rows: list[Kept]) -> _Piece:
        piece = _Piece(self._order(rows[0]), self._moment(rows[-1]), len(rows), None, rows)
        piece.is_changed = True
        return piece

    def _moment(self, row: Kept) -> int:
        return int(self._order(row)[0])


class Memory:
    """The state of one key: a head, which the step changes at will, and queues."""

    def __init__(self, text: str | None, form: int, pieces: Pieces) -> None:
        """Read stored state.

        Args:
            text: What ``text`` returned; None when there is no state.
            form: The form of today's step.
            pieces: The store of the queues' pieces.

        Raises:
            DataError: Later code has written the state.
        """
        stored: Kept = json.loads(text) if text else {"form": form}
        self.form: int = stored.get("form", 0)
        """The form of the stored state; 0 is one JSON value of the step's own."""
        if self.form > form:
            raise DataError(
                f"state has form {self.form}, and this code knows those up to {form}",
                hint="a later version has written it; run that version, or compute the table again: "
                "`strandline rebuild`.",
                form=self.form,
            )
        self.head: Kept = stored.get("head", {}) if self.form else stored
        self._form = form
        self._saved: dict[str, Kept] = stored.get("waiting", {}) if self.form else {}
        self._queues: dict[str, Waiting] = {}
        self._pieces = pieces
        self._next = int(stored.get("next", 0)) if self.form else 0

    def waiting(self, name: str, order: Order) -> Waiting:
        """Return the queue of a name."""
        if name not in self._queues:
            saved = self._saved.get(name, {})
            self._queues[name] = Waiting(saved, order, self._pieces, self._numbered)
        return self._queues[name]

    def text(self) -> str | None:
        """Write what has changed, and return the state as text; None when it is empty."""
        saved = {name: queue.save() for name, queue in self._queues.items()}
        waiting = {name: each for name, each in {**self._saved, **saved}.items() if each}
        if not waiting and not self.head:
            return None
        kept = {"form": self._form, "head": self.head, "waiting": waiting, "next": self._next}
        return _text(kept)

    def _numbered(self) -> int:
        self._next += 1
        return self._next


def _divided(rows: list[Kept], is_last: bool) -> Iterator[list[Kept]]:  # noqa: FBT001  # it has one call, which names it
    """Yield rows in pieces: full ones at the end, where rows are added, and of equal size in between."""
    count = -(-len(rows) // PIECE)
    size = PIECE if is_last else -(-len(rows) // count)
    for begin in range(0, len(rows), size):
        yield rows[begin : begin + size]


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
