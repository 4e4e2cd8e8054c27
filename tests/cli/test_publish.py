"""``strandline publish``: what a person types and reads, and each plain mistake with what to do."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strandline.engine.lake.place import Place
from tests.cli.typed import Answer, strandline
from tests.support.paid_shop import Orders, made

LINES = """
from strandline import Publish
from .gold import paid_orders


def lines(changes):
    return {each.id: "too dear" for each in changes if each.row and each.row["amount"] > 5}


PUBLISH = (Publish("lines", paid_orders.TABLE, to=lines),)
"""


@dataclass
class Typed:
    """The program in the folder of a project that publishes to a function, which refuses what is dear."""

    folder: Path

    def __call__(self, *words: str) -> Answer:
        """Type a command."""
        return strandline(*words, cwd=self.folder)

    def declare(self, text: str) -> None:
        """Write another declaration."""
        (self.folder / "shop" / "publish.py").write_text(text)


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    """Make the project, and its lake."""
    made(tmp_path)
    (tmp_path / ".lake").mkdir()
    typed = Typed(tmp_path)
    typed.declare(LINES)
    return typed


@pytest.fixture
def orders(typed: Typed, chance: random.Random) -> Orders:
    """Return the table that is published."""
    return Orders(Place.of(typed.folder / ".lake"), chance)


@pytest.mark.slow
def test_what_is_sent_is_said_in_the_ledger_and_the_status(typed: Typed, orders: Orders) -> None:
    orders.add(3)
    orders.add(1, amount="9.00")

    sent: Any = typed("publish", "--once", "--json").succeeded().json
    refused: Any = typed("publish", "lines", "--refused", "--json").succeeded().json
    orders.add(1)
    status: Any = typed("status", "--json").json

    figures = {name: sent[0][name] for name in ("read", "accepted", "refused", "lag", "process")}
    assert figures == {"read": 4, "accepted": 3, "refused": 1, "lag": 0, "process": None}
    assert [(each["key"], each["why"]) for each in refused] == [('{"order_id":"o3"}', "too dear")]
    assert [each["lag"] for each in status["publications"]] == [1]
    line = "published from gold.paid_orders to function:lines (lines): 4 changes read = 3 accepted + 1 refused, 1 versions behind"
    assert line in " ".join(typed("status").out.split())


@pytest.mark.whole
@pytest.mark.slow
def test_a_range_and_all_are_sent_again(typed: Typed, orders: Orders) -> None:
    orders.add(10)
    typed("publish", "--once").succeeded()
    since, until = "2026-11-02T12:00:02", "2026-11-02T12:00:05"

    part: Any = typed("publish", "--again", "--since", since, "--until", until, "--json").json
    whole: Any = typed("publish", "--again", "--json").succeeded().json

    assert (part[0]["read"], part[0]["replayed"]) == (10, 3)
    assert whole[0]["read"] == 10


@pytest.mark.parametrize(
    ("declares", "words", "says"),
    [
        (None, (), "add the module publish to the package shop"),
        ("ANOTHER = 1\n", (), "shop.publish does not declare what leaves"),
        ("import nothing_of_this_name\n", (), "No module named 'nothing_of_this_name'"),
        (
            LINES.replace("to=lines", "to=5"),
            (),
            "shop.publish: lines publishes to 5, which is no target",
        ),
        (
            LINES.replace("),)\n", '), Publish("lines", paid_orders.TABLE, to=print))\n'),
            (),
            "two publications",
        ),
        (LINES, ("others",), "nothing of the name others is published"),
        (LINES, (), "gold.paid_orders does not exist"),
    ],
)
def test_a_mistake_is_said_with_what_to_do(
    typed: Typed, declares: str | None, words: tuple[str, ...], says: str
) -> None:
    declared = typed.folder / "shop" / "publish.py"
    if declares is None:
        declared.unlink()
    else:
        declared.write_text(declares)

    answer = typed("publish", "--once", *words)

    assert answer.code == 2
    assert says in " ".join(answer.err.split())
    assert "hint:" in answer.err


def test_a_range_without_its_verb_or_its_end_is_refused(typed: Typed, orders: Orders) -> None:
    orders.add(1)

    verbless = typed("publish", "--since", "2026-11-01", "--until", "2026-11-02")
    endless = typed("publish", "--again", "--since", "2026-11-01")

    assert (verbless.code, endless.code) == (2, 2)
    assert "add --again" in verbless.err
    assert "a range has two ends" in endless.err


@pytest.mark.slow
def test_a_masked_key_and_another_target_under_an_old_name_are_refused(
    typed: Typed, orders: Orders
) -> None:
    orders.add(1)
    typed("publish", "--once").succeeded()
    typed.declare(
        LINES.replace("lines(changes)", "others(changes)").replace("to=lines", "to=others")
    )
    renamed = typed("publish", "--once")
    gold = typed.folder / "shop" / "gold" / "paid_orders.py"
    gold.write_text(gold.read_text().replace("    key=", '    sensitive=("order_id",),\n    key='))
    typed.declare(LINES)
    masked = typed("publish", "--once")
    typed.declare(LINES.replace("to=lines", 'to=lines, unmasked="billing"'))
    clear = typed("publish", "--once")

    assert "has published gold.paid_orders to function:lines" in renamed.err
    assert "whose key order_id is masked" in " ".join(masked.err.split())
    assert (renamed.code, masked.code, clear.code) == (2, 2, 0)
