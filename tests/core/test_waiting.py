"""Waiting rows are a sorted list in pieces, of which a batch reads only those that it needs."""

import json
import random
from bisect import bisect_left
from typing import Any

import pytest

from fleet.gold.attributed_connections import FOLD
from strandline.core.errors import DataError
from strandline.core.fold import PIECE, InMemory, Memory

MINUTE = 60_000_000


class Counted(InMemory):
    """Pieces that count how often they are read and written."""

    def __init__(self) -> None:
        """Begin at nothing."""
        super().__init__()
        self.calls = 0

    def read(self, number: int) -> str:
        """Return a piece."""
        self.calls += 1
        return super().read(number)

    def write(self, number: int, text: str) -> None:
        """Put a piece in the place of what lay there."""
        self.calls += 1
        super().write(number, text)


def order(row: dict[str, Any]) -> list[int]:
    return [row["at"], row["n"]]


def test_a_queue_is_a_sorted_list_whatever_is_done_to_it(chance: random.Random) -> None:
    """Hundreds of times, written and read again in between."""
    text, pieces, expected, number = None, InMemory(), list[dict[str, int]](), 0
    for turn in range(300):
        memory = Memory(text, 1, pieces)
        queue = memory.waiting("rows", order)
        what, moment = chance.choice("aaarbpds"), chance.randrange(500) + 10 * turn
        at = bisect_left(expected, moment, key=lambda row: row["at"])
        match what:
            case "a":
                new = [
                    {
                        "at": moment + chance.randrange(200),
                        "n": (number := number + 1),
                        "changes": 0,
                    }
                    for _ in range(chance.choice([1, 5, 3 * PIECE]))
                ]
                queue.add(dict(row) for row in new)
                expected = sorted([*expected, *new], key=order)
            case "r":

                def revised(row: dict[str, Any]) -> bool:
                    row["changes"] += 1
                    return True

                queue.revise(moment, revised)
                for row in expected[at:]:
                    row["changes"] += 1
            case "b":
                assert queue.before(moment) == (expected[at - 1] if at else None)
            case "p":
                assert queue.pop(moment - 1) == expected[:at]
                expected = expected[at:]
            case "d":
                queue.drop(moment - 1)
                expected = expected[at:]
            case _:
                assert list(queue.since(moment)) == expected[at:]
        assert len(queue) == len(expected)
        assert (queue.first, queue.last) == (
            (expected[0]["at"], expected[-1]["at"]) if expected else (None, None)
        )
        text = memory.text()
        assert (text is None) is not bool(expected)
        assert sum(map(len, map(json.loads, pieces.texts.values()))) in {0, len(expected)}


def connection(number: int) -> dict[str, Any]:
    own = {
        "connection_id": f"c{number}",
        "dst_ip": "x",
        "dst_port": 1,
        "bytes_out": 1,
        "bytes_in": 1,
    }
    return {**dict.fromkeys(FOLD.reads), **own, "ip": "a", "at": number * 1_000}


def cost(behind: int) -> int:
    """Return how many pieces are read and written for a batch of 100 connections when so many wait already."""
    pieces, text = Counted(), None
    for begin in range(0, behind, 10_000):
        memory = FOLD.recall(text, pieces)
        FOLD.step(memory, [connection(n) for n in range(begin, begin + 10_000)], 0)
        text = memory.text()
    pieces.calls = 0
    memory = FOLD.recall(text, pieces)
    step = FOLD.step(memory, [connection(behind + n) for n in range(100)], 5_000)
    assert len(list(step.answers)) == 100
    text = memory.text()
    assert text is not None
    assert len(text) < behind
    return pieces.calls


@pytest.mark.whole
def test_a_batch_costs_the_same_however_much_waits() -> None:
    """The last piece and one more, and the first, of which some rows are settled; not one value of all."""
    assert cost(10_000) == cost(50_000) <= 5


def test_a_key_with_little_to_remember_is_one_value() -> None:
    """Most keys have little; a second value would cost each of them a call to the engine."""
    pieces = Counted()
    memory = FOLD.recall(None, pieces)
    FOLD.step(memory, [connection(n) for n in range(PIECE)], -1)
    text = memory.text()
    again = FOLD.recall(text, pieces)
    assert len(again.waiting("connections", lambda row: [row["at_us"]])) == PIECE
    assert pieces.calls == 0


def test_state_of_later_code_is_refused() -> None:
    """It is neither half read nor dropped."""
    with pytest.raises(DataError, match="form 2"):
        FOLD.recall('{"form": 2, "head": {}, "waiting": {}, "next": 0}', InMemory())
