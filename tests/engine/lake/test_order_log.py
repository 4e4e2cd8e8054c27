"""The log of orders only grows: no line is lost by a kill, a full disk or writers at once, and a look reads what it needs."""

import fcntl
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.lake import order_log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import FOLDER, Asked, How, Order, Whom, newest
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import add_line
from strandline.engine.runtime import log_files
from strandline.engine.runtime.processes import own
from strandline.engine.runtime.roles import RoleError
from tests.support.rows import NOON

AGAIN = timedelta(minutes=1)
D17 = Whom(words=["d-17"])


@pytest.fixture(params=["folder", pytest.param("store", marks=pytest.mark.whole)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Return an empty lake in a folder, or on an object store."""
    if request.param == "folder":
        return Lake(Place.of(tmp_path / "lake"))
    return Lake(request.getfixturevalue("bucket"))


def given(
    lake: Lake,
    verb: str,
    at: datetime = NOON,
    who: str = "ann",
    *,
    table: str = "",
    **asked: object,
) -> Order:
    """Write an order down."""
    order = order_log.order_of(
        verb,
        who=who,
        at=at,
        over="shell",
        role="repair",
        asked=asked,
        tables=[table] if table else [],
    )
    order_log.write(lake, order, at)
    return order


def test_an_order_is_there_before_its_end(lake: Lake) -> None:
    """Until it has one it runs; one whose process is gone has no end."""
    order = given(lake, "promote", table="gold.daily")
    (begun,) = newest(lake, Asked()).orders
    order_log.end(lake, order, NOON + AGAIN, How.FAILED, "no room")
    (ended,) = newest(lake, Asked()).orders

    assert (begun.state, begun.tables, begun.who) == ("running", ("gold.daily",), "ann")
    assert (ended.state, ended.message, ended.id) == ("failed", "no room", begun.id)
    gone = Order(**{**order_log._values(order), "id": "x", "started": 1.0})
    assert gone.state == "no end"
    assert gone.pid == own()["pid"]


def test_the_newest_come_first_and_nothing_else_is_read(lake: Lake) -> None:
    """A year of days, a clock that is a year ahead among them, costs a look at one."""
    for day in range(40):
        given(lake, "backfill", NOON + timedelta(days=day))
    given(lake, "promote", NOON + timedelta(days=365))

    found = newest(lake, Asked(last=1))
    since = newest(lake, Asked(since=NOON + timedelta(days=38)))

    assert ([each.verb for each in found.orders], found.parts) == (["promote"], 1)
    assert [each.at[:10] for each in since.orders] == ["2027-11-20", "2026-12-29", "2026-12-28"]
    assert since.parts == 3
    assert len(newest(lake, Asked(last=100)).orders) == 41


def test_orders_are_found_by_table_and_by_person(lake: Lake) -> None:
    """A table is named by an argument or within a question, and not by a longer name."""
    given(lake, "promote", table="gold.daily")
    given(lake, "query", sql="FROM gold.daily_totals JOIN gold.DAILY USING (day)", who="bo")
    given(lake, "query", sql="FROM gold.daily_totals")

    assert [each.verb for each in newest(lake, Asked(table="gold.daily")).orders] == [
        "query",
        "promote",
    ]
    assert [each.who for each in newest(lake, Asked(by="bo")).orders] == ["bo"]
    assert newest(lake, Asked(by="eve")).orders == []


def test_a_full_part_is_followed_by_the_next(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a line copies a bounded file, and a look reads the last part alone."""
    monkeypatch.setattr(order_log, "MOST", 2_000)
    for number in range(30):
        given(lake, "run", NOON + number * AGAIN, n=number)

    folder = lake.root / FOLDER / "2026-11"
    names = folder.names()
    found = newest(lake, Asked(last=1))

    assert {"20.1.jsonl", "20.2.jsonl", "20.jsonl"} <= {*names}
    assert all((folder / name).size() < 3_000 for name in names)
    assert ([each.asked["n"] for each in found.orders], found.parts) == (["29"], 1)
    assert [int(each.asked["n"]) for each in newest(lake, Asked()).orders] == [*range(29, -1, -1)]


def test_writers_at_once_and_a_request_to_forget_lose_no_line(lake: Lake) -> None:
    """Eight threads write while whom to forget is replaced again and again."""
    many = 8 if lake.root.is_local else 3

    def write(writer: int) -> None:
        for number in range(10):
            order = given(lake, "query", sql=f"d-17 of {writer}", n=number)
            order_log.end(lake, order, NOON, How.DONE)

    with ThreadPoolExecutor(many + 1) as pool:
        writing = [pool.submit(write, each) for each in range(many)]
        for _ in range(5):
            order_log.forget(lake, D17, go=True)
        for each in writing:
            each.result()
    order_log.forget(lake, D17, go=True)
    found = newest(lake, Asked(last=1_000))

    assert (len(found.orders), found.unread) == (many * 10, 0)
    assert {each.state for each in found.orders} == {"done"}
    assert {each.asked["sql"].partition(" of ")[0] for each in found.orders} == {"[forgotten]"}


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    """As by a full disk: the next line begins anew, and the order is known by its end."""
    lake = Lake(tmp_path)
    order = given(lake, "promote")
    part = (lake.root / FOLDER / "2026-11" / "20.jsonl").local
    part.write_bytes(part.read_bytes()[:-40])

    order_log.end(lake, order, NOON + AGAIN, How.DONE)
    found = newest(lake, Asked())

    assert (found.unread, [each.state for each in found.orders]) == (1, ["done"])
    assert found.orders[0].at == order.at


def test_whom_to_forget_is_replaced_in_what_was_said_alone(lake: Lake) -> None:
    """As a word, also where JSON escapes it; who ordered what and when stays, and so does another device."""
    given(lake, "query", sql="WHERE device_id = 'd-17'")
    given(lake, "query", sql="WHERE device_id = 'd-171'", who="d-17")
    given(lake, "query", NOON + AGAIN, note='the "o\\neil" case')

    counts = [
        order_log.forget(lake, Whom(words=["d-17", 'o\\neil" case']), go=go)
        for go in (False, True, True)
    ]
    texts = [dict(each.asked) for each in newest(lake, Asked()).orders]

    assert counts == [2, 2, 0]
    assert texts == [
        {"note": 'the "[forgotten]'},
        {"sql": "WHERE device_id = 'd-171'"},
        {"sql": "WHERE device_id = '[forgotten]'"},
    ]
    assert newest(lake, Asked(by="d-17")).orders
    assert order_log.forget(lake, Whom(words=[]), go=True) == 0


def test_a_short_key_and_a_number_are_replaced_where_their_column_is_named(lake: Lake) -> None:
    """Anywhere else they are parts of much that is about no person."""
    given(lake, "query", sql="SELECT 42 FROM x WHERE customer_id = 42 OR code = 'd1' LIMIT 42")
    given(lake, "query", NOON + AGAIN, sql="SELECT 42, 'd1' FROM x LIMIT 420")
    where = "customer_id = 42 OR code = 'd1'"

    whom = Whom.of(where, [], ["customer_id", "code"])
    counts = [order_log.forget(lake, whom, go=go) for go in (False, True, False)]

    assert counts == [1, 1, 0]
    assert [each.asked["sql"] for each in newest(lake, Asked()).orders] == [
        "SELECT 42, 'd1' FROM x LIMIT 420",
        "SELECT [forgotten] FROM x WHERE customer_id = [forgotten] OR code = '[forgotten]' LIMIT [forgotten]",
    ]


def test_a_megabyte_of_text_is_cut(lake: Lake) -> None:
    """And what no text can be is written all the same."""
    given(lake, "query", sql="x" * 1_000_000 + "\udcff", why_="\ud800")

    (order,) = newest(lake, Asked()).orders

    assert len(order.asked["sql"]) < 2_100
    assert order.asked["sql"].endswith("(1,000,001 characters)")


def test_the_log_of_before_is_shown_and_forgotten_in(tmp_path: Path) -> None:
    """Lakes of before have questions that were answered unmasked in a file of their own."""
    lake = Lake(tmp_path)
    log = lake.log("unmasked")
    for sql in ("SELECT 'd-17'", "SELECT 2"):
        line = {"at": "2026-10-01T12:00:00+00:00", "who": "eve", "why": "case 3", "sql": sql}
        log.append(json.dumps(line))
    given(lake, "promote")

    assert order_log.forget(lake, D17, go=True) == 1
    found = newest(lake, Asked()).orders

    assert [(each.verb, each.who, each.why) for each in found] == [
        ("promote", "ann", ""),
        ("unmask", "eve", "case 3"),
        ("unmask", "eve", "case 3"),
    ]
    assert [each.asked["sql"] for each in found[1:]] == ["SELECT 2", "SELECT '[forgotten]'"]


def test_what_was_refused_or_shown_is_one_line_and_read_as_such(lake: Lake) -> None:
    """A look at the newest reads no further for the beginning of one that has none."""
    for day in range(3):
        at = NOON + timedelta(days=day)
        order = given(lake, "retire", at)
        order_log.refused(lake, order, at, RoleError("no role", hint="ask."))
        order_log.write_down(lake, {"sql": "x"}, who="eve", at=at, why="case", over="jdbc")

    found = newest(lake, Asked(last=2))

    assert ([each.state for each in found.orders], found.parts) == (["shown", "refused"], 1)


def test_what_is_shown_unmasked_has_a_reason(lake: Lake) -> None:
    """Without one nothing is written, and nothing may be shown."""
    with pytest.raises(DefinitionError, match="for a reason only"):
        order_log.write_down(lake, {"sql": "x"}, who="eve", at=NOON, why=" ", over="jdbc")

    assert newest(lake, Asked()).orders == []


FORGED = json.dumps(
    {
        "id": "0",
        "at": "2026-11-20T12:00:00.000+00:00",
        "verb": "forget",
        "who": "bob",
        "over": "shell",
    }
)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
def test_no_text_takes_an_order_out_of_the_log_or_makes_another(end: str, tmp_path: Path) -> None:
    """What other programs end a line with is a letter of a reason."""
    lake = Lake(Place.of(tmp_path / "lake"))
    order = order_log.order_of(
        "retire",
        who="eve",
        at=NOON,
        over="shell",
        role="repair",
        asked={},
        why=f"x{end}{FORGED}{end}",
    )
    order_log.write(lake, order, NOON)

    found = newest(lake, Asked())

    assert [(each.who, each.verb) for each in found.orders] == [("eve", "retire")]
    assert found.unread == 0
    assert order_log.forget(lake, Whom(words=["x"]), go=True) == 1
    assert [each.who for each in newest(lake, Asked()).orders] == ["eve"]


def test_a_megabyte_of_a_name_is_cut(tmp_path: Path) -> None:
    """Of a person and of tables; what is typed as one may be anything."""
    lake = Lake(Place.of(tmp_path / "lake"))

    given(lake, "run", who="w" * 1_000_000, table="t" * 1_000_000)

    assert sum(each.size() for each in (lake.root / FOLDER).files()) < 2_000


def test_an_order_whose_clock_was_set_back_is_one(lake: Lake) -> None:
    """Its end is of a day before its begin."""
    order = given(lake, "promote", NOON + timedelta(days=365))
    order_log.end(lake, order, NOON, How.DONE)

    (found,) = newest(lake, Asked()).orders

    assert (found.id, found.state) == (order.id, "done")


def test_a_writer_that_hangs_keeps_no_order_waiting_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is stopped while it writes holds the lock for ever."""
    lake = Lake(Place.of(tmp_path / "lake"))
    given(lake, "promote")
    (part,) = (lake.root / FOLDER).files()
    monkeypatch.setattr(log_files, "ALONE_WITHIN", 0.1)

    with part.local.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="another program has it open"):
            given(lake, "undo")
    given(lake, "undo")

    assert [each.verb for each in newest(lake, Asked()).orders] == ["undo", "promote"]


ASKED = '{{"name": "query", "arguments": {{"sql": "SELECT 1 WHERE user_id = \'{}\'"}}}}'


def test_a_request_to_forget_goes_through_what_agents_asked(tmp_path: Path) -> None:
    """In the log and in the part before it, however a line has its letters; who asked and when stays, and so does every other line."""
    lake = Lake(Place.of(tmp_path / "lake"))
    lines = [
        {"time": "t", "who": "josé", "asked": ASKED.format("josé")},
        {"time": "t", "who": "ann", "asked": ASKED.format("jos\\u00e9")},
        {"time": "t", "who": "ann", "asked": ASKED.format("josé")[:-5], "message": "no josé here"},
        {"time": "t", "who": "ann", "asked": ASKED.format("other")},
    ]
    log = lake.log(order_log.CALLS)
    text = "".join(f"{json.dumps(each)}\n" for each in lines)
    log.put(text + "torn josé {\n")
    (log.parent / f"{log.name}.1").put(text)
    whom = Whom(words=["josé"])

    assert order_log.forget_calls(lake, whom, go=False) == 7
    assert log.text() == text + "torn josé {\n"
    assert order_log.forget_calls(lake, whom, go=True) == 7
    assert order_log.forget_calls(lake, whom, go=True) == 0

    kept = (log.text() or "").split("\n")
    assert [json.loads(each)["who"] for each in kept[:4]] == ["josé", "ann", "ann", "ann"]
    assert "josé" not in "".join(kept).replace('"who": "josé"', "")
    assert "jos\\u00e9" not in "".join(kept)
    assert kept[3] == json.dumps(lines[3])
    assert kept[4] == "torn [forgotten] {"


def test_requests_that_come_while_one_is_forgotten_are_all_there(tmp_path: Path) -> None:
    """What appends and what replaces have one lock."""
    lake = Lake(Place.of(tmp_path / "lake"))
    log = lake.log(order_log.CALLS)
    log.parent.make()

    def asked(number: int) -> None:
        for each in range(50):
            add_line(log, json.dumps({"asked": f"josé {number} {each}"}))

    with ThreadPoolExecutor(4) as threads:
        done = [threads.submit(asked, number) for number in range(3)]
        while not all(each.done() for each in done):
            order_log.forget_calls(lake, Whom(words=["josé"]), go=True)
    order_log.forget_calls(lake, Whom(words=["josé"]), go=True)

    text = log.text() or ""
    assert (
        len({json.loads(each)["asked"] for each in text.splitlines()}) == 150
    )  # three times fifty
    assert "josé" not in text
