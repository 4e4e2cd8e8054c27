"""The page for the lake beside Dagster's: what it answers, what it hides, and how it looks and is used in a real browser."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from strandline import catalog

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from fleet.silver import user_actions
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.accounting import cost, gate_files
from strandline.engine.accounting.gate_files import Shut, Where
from strandline.engine.ask.moments import note
from strandline.engine.ask.named_moments import keep_named
from strandline.engine.flow.function_plan import lineage
from strandline.engine.lake.lake import RESTORING, Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import last_entry, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import settings
from strandline.operate import lake_page
from strandline.operate.lake_page import LakePage, masked
from strandline_dagster import webserver
from tests.e2e.test_report_page import QUESTIONS
from tests.engine.written import entry, small_lake, written
from tests.support import lakes
from tests.support.browser import Browser, _complaint, opened_here
from tests.support.events import sent
from tests.support.four_days import filled
from tests.support.held import hold, record
from tests.support.page import Server, served
from tests.support.tab import Tab, tab

BRONZE, SILVER, GOLD = silver.TABLE.upstream[0], silver.TABLE, gold.TABLE
WHO = "alice-of-payroll"
ODD = f'{{"action_id": "a9", "user_id": "{WHO}", "note": "<img src=x onerror=alert(1)>"}}'
SIZES = {"desk": (1280, 900), "telephone": (390, 844)}
STRANGER = "evil.example"
EVIL = f"http://{STRANGER}"


@pytest.fixture(scope="module")
def shown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with tables of each layer, a masked column, a held record with mark-up, and known lineage."""
    lake = filled(spark, Lake(tmp_path_factory.mktemp("page") / "lake").open_for_writing())
    noted = note(lake, catalog.tables(), "a test")
    assert noted is not None
    keep_named(lake, catalog.tables(), "month-end", noted, "")
    for each in (SILVER, GOLD):
        lineage(spark, each, lake)
    bad = record(8, "missing_event_at", _topic="user-actions", _payload=ODD.encode())
    one = entry(user_actions.TABLE, read=2, good=1, quarantined={"missing_event_at": 1}, written=1)
    hold(lake, user_actions.TABLE, [bad], one)
    written(lake.table(user_actions.TABLE), [{"action_id": "a1", "user_id": WHO}], one.encoded())
    return lake


@pytest.fixture
def own(shown: Lake, tmp_path: Path) -> Lake:
    """Return a copy of that lake which a test may change."""
    lakes.copy(shown.root, lakes.place(tmp_path / "own"))
    return Lake(tmp_path / "own")


@pytest.fixture(scope="module")
def server(shown: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve it, as `strandline ui` does."""
    with served(tmp_path_factory.mktemp("served"), shown.root) as found:
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Open this machine's browser."""
    with opened_here(tmp_path_factory.mktemp("profile")) as here:
        yield here


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the pictures of a run are kept for who wants to look at them."""
    return tmp_path_factory.mktemp("pictures")


def page_of(lake: Lake, later: timedelta = timedelta(0)) -> LakePage:
    return LakePage(settings(lake=str(lake.root)), lake, lambda: clock.now() + later)


def lines(page: LakePage) -> dict[str, Any]:
    return {each["id"]: each for each in page.overview()["tables"]}


# What it answers.


def test_every_table_is_there_with_its_rows_its_lag_and_a_verdict(shown: Lake) -> None:
    """The rows are those of the files, the order that in which data flows."""
    found = lines(page_of(shown))

    assert [*found] == [each.id for each in catalog.tables()]
    seen = found[SILVER.id]
    assert (seen["rows"], seen["lag"], seen["verdict"]) == (12, 0, "believed")
    assert seen["version"] == latest_version(shown.table(SILVER))
    assert seen["reads"] == [BRONZE.id]
    assert found[user_actions.TABLE.id]["held"] == 1
    never = found["gold.site_traffic_1h"]
    assert (never["rows"], never["verdict"], never["version"]) == (None, "nothing written", None)


def test_what_is_not_read_makes_a_table_stale_after_an_hour(own: Lake) -> None:
    """And what rests on it has a warning."""
    sent(own, 200)

    found = lines(page_of(own))
    assert (found[SILVER.id]["lag"], found[SILVER.id]["verdict"]) == (4, "believed")
    later = lines(page_of(own, timedelta(hours=2)))
    assert later[SILVER.id]["verdict"] == "stale"
    assert later[GOLD.id]["verdict"] == "believed, with warnings"
    assert later[GOLD.id]["because"] == [f"rests on {SILVER.id}, which is stale"]


def test_a_shut_gate_and_a_failed_certificate_are_verdicts(own: Lake) -> None:
    """The worst reason decides, and all are given."""
    found = [{"name": "rows", "says": "too few"}]
    shut = Shut(
        table=SILVER.id, where=Where.BEFORE, stream="s", batch=9, at="noon", findings=tuple(found)
    )
    gate_files.write(shut, SILVER, own)

    seen = lines(page_of(own))[SILVER.id]

    assert seen["verdict"] == "held back"
    assert seen["because"] == ["the gate before it is shut since noon: rows: too few"]


def test_one_look_reads_what_was_committed_since(
    own: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is open for days asks every few seconds."""
    monkeypatch.setattr(lake_page, "EVERY", 0.0)
    page = page_of(own)
    before = lines(page)[BRONZE.id]
    sent(own, 200)
    commit_file(own.table(BRONZE), 1).put("torn")  # what was read once is not read again

    after = lines(page)[BRONZE.id]
    assert after["rows"] == before["rows"] + 4


def test_a_torn_commit_is_one_tables_verdict(own: Lake) -> None:
    """The others are shown as ever."""
    version = latest_version(own.table(SILVER))
    commit_file(own.table(SILVER), version).put('{"commitInfo":')

    found = lines(page_of(own))

    assert found[SILVER.id]["verdict"] == "unbalanced"
    assert found[BRONZE.id]["verdict"] == "believed"
    (fault, *_) = page_of(own).table(SILVER.id)["faults"]
    assert SILVER.id in fault


def test_a_clock_a_year_ahead_hides_no_table(own: Lake) -> None:
    """What is said of time is wrong then, and rows and versions are not."""
    found = lines(page_of(own, timedelta(days=366)))

    assert found[SILVER.id]["rows"] == 12


def test_a_table_has_its_columns_with_lineage_both_ways_and_its_commits(shown: Lake) -> None:
    """The newest commits alone are read."""
    found = page_of(shown).table(SILVER.id)

    columns = {each["name"]: each for each in found["columns"]}
    assert columns["device_id"]["is_key"] is False or "device_id" in SILVER.key
    assert columns["value"]["from"] == [[BRONZE.id, "_payload"]]
    assert [GOLD.id, "device_id"] in columns["device_id"]["goes"]
    assert [each["version"] for each in found["history"]] == [
        version for version in range(latest_version(shown.table(SILVER)) + 1) if version
    ]
    assert sum(each["good"] for each in found["history"]) == 12
    assert found["read_by"][0] == GOLD.id
    assert found["faults"] == []
    never = page_of(shown).table("gold.site_traffic_1h")
    assert (never["columns"], never["history"]) == ([], [])


def test_the_tail_of_a_log_is_read_and_no_more(
    shown: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty thousand commits cost what two do."""
    monkeypatch.setattr(lake_page, "TAIL", 2)

    found = page_of(shown).table(SILVER.id)["history"]

    last = latest_version(shown.table(SILVER))
    assert [each["version"] for each in found] == [last - 1, last]


def test_an_event_is_found_without_a_search_of_bronze(shown: Lake) -> None:
    """As `strandline why --quick` finds it."""
    page = page_of(shown)

    found = page.why("device-telemetry/0/3")

    assert (found["table"], found["verdict"]) == (SILVER.id, "in the table")
    with pytest.raises(DefinitionError, match="no table reads a topic nothing"):
        page.why("nothing/0/3")
    long = page.why("x" * 2_000_000, SILVER.id) if len(SILVER.key) == 1 else {"event": ""}
    assert len(long["event"]) <= lake_page.LONGEST
    with pytest.raises(DefinitionError, match="did you mean"):
        page.table("silver.device_telemetri")


def test_the_latest_moment_and_those_with_a_name_are_shown(own: Lake) -> None:
    """Each table with its version in it, or why it is no part of it."""
    page = page_of(own)

    brief, found = page.overview()["moment"], page.moments()
    (named,) = found["named"]
    assert brief["number"] == found["latest"]["number"] == named["number"] == 1
    assert brief["versions"][SILVER.id] == latest_version(own.table(SILVER))
    assert named["name"] == "month-end"
    assert named["versions"] == found["latest"]["versions"]
    sent(own, 200)
    assert page_of(own).overview()["moment"]["number"] == 1
    assert note(own, catalog.tables(), "a test") is not None


def test_what_a_table_took_is_that_of_the_verb_and_is_followed(
    own: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day of a stream has 17,000 commits: they are read once, some at a time."""
    page, today = page_of(own), clock.now().date()

    def verb() -> list[cost.Cost]:
        days = today - cost.DAY, today + cost.DAY
        return [*cost.costs(own, [BRONZE], *days, cost.Prices()).days]

    monkeypatch.setattr(lake_page, "SPENT_AT_ONCE", 1)
    answers = [page.cost(BRONZE.id)]
    while not answers[-1]["is_whole"]:
        answers.append(page.cost(BRONZE.id))
    assert len(answers) > 2

    def same(found: Any) -> bool:  # noqa: ANN401  # JSON
        return [(each["day"], each["commits"], each["core_seconds"]) for each in found] == [
            (each.day, each.commits, round(each.core_seconds, 3)) for each in verb()
        ]

    assert same(answers[-1]["days"])
    assert answers[-1]["days"][-1]["price"] is None
    before = sum(each["commits"] for each in answers[-1]["days"])
    sent(own, 200)
    commit_file(own.table(BRONZE), 1).put("torn")  # what was read once is not read again
    after = page.cost(BRONZE.id)["days"]
    assert sum(each["commits"] for each in after) == before + 1


@pytest.mark.whole
def test_a_lake_that_is_being_restored_is_not_shown(bucket: Place) -> None:
    """On a store its tables come one after the other, and what is there would look as if it were all."""
    lake = small_lake(bucket / "lake")
    (lake.root / RESTORING).put("{}")
    page = page_of(lake)

    for ask in (
        page.overview,
        page.moments,
        lambda: page.table(SILVER.id),
        lambda: page.why("device-telemetry/0/3"),
    ):
        with pytest.raises(TransientError, match="is being restored"):
            ask()
    (lake.root / RESTORING).remove()
    assert page.overview()["tables"]


# What it hides.


def test_no_masked_value_is_in_any_answer(server: Server) -> None:
    """Not in a held record, in no evidence, under no name."""
    name = user_actions.TABLE.id
    held = server.asked(f"/lake/data/held/{name}")[1]
    table = server.asked(f"/lake/data/table/{name}")[1]
    why = server.asked(f"/lake/data/why?event=user-actions/0/8&in={name}")[1]

    assert json.loads(held)["samples"][0]["offset"] == 8
    assert "missing_event_at" in json.loads(table)["rules"][0]["rule"] or json.loads(table)
    assert {each["name"] for each in json.loads(table)["columns"] if each["is_masked"]} >= {
        "user_id"
    }
    for answer in (held, table, why):
        assert WHO not in answer


def test_evidence_is_masked_by_what_a_column_holds_and_not_by_its_name_below() -> None:
    """A gold table may give a masked column another name; ``why`` knows the names that were declared."""
    secrets = frozenset({"who"})
    evidence = {
        "key": {"who": WHO, "hour": 3},
        "rests_on_it": [{"table": "gold.x", "rows": [{"who": WHO}]}],
        "row": {"who": "[text, 9 to 16 long]"},
        "near": [{"who": f"[{WHO}]"}],
        "says": "x" * 5_000,
    }

    found = masked(evidence, secrets)

    assert WHO not in json.dumps(found)
    assert found["key"]["hour"] == 3
    assert found["row"] == evidence["row"]
    assert len(found["says"]) == lake_page.LONGEST + 1


# Who may ask.


@pytest.mark.parametrize(
    ("path", "heads", "status"),
    [
        ("/lake/", {}, 200),
        ("/lake/page.js", {}, 200),
        ("/lake/data/overview", {"Sec-Fetch-Site": "same-origin"}, 200),
        ("/lake/data/overview", {"Host": STRANGER}, 403),
        ("/lake/", {"Host": STRANGER}, 403),
        ("/lake/data/overview", {"Origin": EVIL}, 403),
        ("/lake/data/overview", {"Sec-Fetch-Site": "cross-site"}, 403),
        # A link from elsewhere opens the page, and asks nothing.
        ("/lake/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        (
            "/lake/data/why?event=user-actions/0/8",
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
            403,
        ),
        ("/lake/data/table/silver.none", {}, 400),
        ("/lake/data/why", {}, 404),
        ("/lake/data/moments", {}, 200),
        ("/lake/data/moments", {"Host": STRANGER}, 403),
        ("/lake/data/cost/silver.none", {}, 400),
        ("/lake/data/cost", {}, 404),
        ("/lake/data/", {}, 404),
        ("/lake/../webserver.py", {}, 404),
        ("/lake/page.py", {}, 404),
    ],
)
def test_the_door_of_dagster_is_before_it(
    server: Server, path: str, heads: dict[str, str], status: int
) -> None:
    """The same check of host and origin."""
    assert server.asked(path, heads)[0] == status


def test_it_takes_no_order(server: Server) -> None:
    """Whatever is sent is refused."""
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        heads = {"Content-Type": "application/json"}
        assert server.asked("/lake/data/overview", heads, method=method)[0] == 405


@pytest.mark.parametrize("path", ["/", "/runs", "/assets/silver/device_telemetry", "/lakes"])
def test_dagsters_addresses_are_what_they_were(server: Server, path: str) -> None:
    """Bookmarks go on."""
    status, text, _ = server.asked(path, {"Accept": "text/html"})

    assert (status, "dagster" in text.lower()) == (200, True)
    moved = server.asked("/lake")
    assert (moved[0], moved[2]["location"]) == (307, "lake/")


def test_a_webserver_whose_code_is_elsewhere_has_no_page_for_the_lake() -> None:
    """On Kubernetes it has neither the project nor keys, and needs none."""
    assert webserver.shows_the_lake(["webserver", "-p", "3000", "-w", "workspace.yaml"])
    assert not webserver.shows_the_lake(["webserver", "--grpc-host", "strandline-code"])
    assert not webserver.shows_the_lake(["webserver", "--grpc-host=strandline-code"])


def test_the_page_leads_nowhere_else_and_runs_no_script_of_others(server: Server) -> None:
    """It works offline, and a payload is text."""
    for name in ("page.html", "page.css", "page.js"):
        text = (webserver.PAGE / name).read_text()
        named = set(re.findall(r"(?:https?:)?//[\w./]+", text))
        assert named <= {"http://www.w3.org/2000/svg"}, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
    policy = server.asked("/lake/")[2]["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_more_questions_than_it_may_answer_at_once_are_refused() -> None:
    """A tab that asks without end leaves threads to Dagster."""
    page = webserver.Page("/lake")
    page._running = webserver.MOST_AT_ONCE

    sent_back: list[Any] = []

    async def send(message: Any) -> None:  # noqa: ANN401  # ASGI
        sent_back.append(message)

    async def receive() -> Any:  # noqa: ANN401  # ASGI
        return {}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/lake/data/overview",
        "headers": [],
        "query_string": b"",
    }
    asyncio.run(page(scope, receive, send))

    assert sent_back[0]["status"] == 503


# How it looks, and how it is used.


@pytest.fixture
def desk(browser: Browser, pictures: Path) -> Tab:
    """Open a tab."""
    return watched(browser, pictures, "desk", dark=False)


def watched(browser: Browser, pictures: Path, size: str, *, dark: bool) -> Tab:
    width, height = SIZES[size]
    browser._events.clear()
    found = tab(browser, pictures, width=width, height=height, dark=dark)
    for domain in ("Log", "Network"):
        browser.send(f"{domain}.enable", found.session)
    return found


def addresses(browser: Browser) -> set[str]:
    return {
        event["params"]["request"]["url"]
        for event in browser._events
        if event["method"] == "Network.requestWillBeSent"
    }


@pytest.mark.slow
@pytest.mark.whole("telephone-by day", "desk-by night")
@pytest.mark.parametrize("dark", [False, True], ids=["by day", "by night"])
@pytest.mark.parametrize("size", SIZES)
def test_each_page_can_be_read(
    server: Server, browser: Browser, pictures: Path, size: str, *, dark: bool
) -> None:
    """Nothing is beyond the edge, too faint or too small; the browser reports no error and asks this server alone."""
    page = watched(browser, pictures, size, dark=dark)
    name = f"{size} {'dark' if dark else 'light'}"

    views = {
        "": ["Tables to trust", "device_signal_10m", "12 rows"],
        f"#/table/{SILVER.id}": [
            "History",
            "p95_value",
            "Certificates",
            "Nothing was held",
            "until now",
        ],
        "#/moments": ["month-end", "for ever", SILVER.id.partition(".")[2]],
        f"#/table/{user_actions.TABLE.id}": ["missing_event_at", "user-actions/0/8"],
        "#/why/device-telemetry%2F0%2F3": ["in the table", "Evidence", GOLD.id],
    }
    for number, (view, words) in enumerate(views.items()):
        page.go(f"{server.page}{view}")
        page.sees(*words)
        page.shot(f"{name} {number}")
        assert page.ask(QUESTIONS["beyond"]) == 0, view
        assert page.ask(QUESTIONS["weak"]) == [], view
        assert page.ask(QUESTIONS["small"]) == 0, view
        assert WHO not in page.words
    ground = str(page.ask("getComputedStyle(document.body).backgroundColor"))
    assert (int(re.findall(r"\d+", ground)[0]) < 128) is dark
    assert [text for event in browser._events for text in _complaint(event)] == []
    assert {each for each in addresses(browser) if not each.startswith(server.page)} <= {
        each for each in addresses(browser) if each.startswith("data:image/svg")
    }


@pytest.mark.slow
def test_it_is_used_by_keys_alone(server: Server, desk: Tab) -> None:
    """From all tables to one by the search and back, along a line of the graph, to an event."""
    desk.go(server.page)
    desk.sees("Tables to trust")

    desk.press("/")
    desk.write("signal_10m")
    desk.sees(rf"gold\s*\.\s*{GOLD.name}", "its last|its only commit")
    assert desk.ask("location.hash") == f"#/table/{GOLD.id}"
    desk.press("Escape")
    desk.sees("Tables to trust")
    desk.ask(f"document.querySelector('[data-id=\"{BRONZE.id}\"]').focus()")
    desk.press("ArrowRight")
    assert desk.ask("document.activeElement.dataset.id") == SILVER.id
    desk.press("v")
    desk.sees("newest event")
    desk.press("/")
    desk.write("device-telemetry/0/3")
    desk.sees("Evidence", "in the table")


@pytest.mark.slow
@pytest.mark.whole
def test_what_comes_is_shown_without_a_reload(server: Server, desk: Tab, shown: Lake) -> None:
    """The page asks again and again, and keeps where the reader is."""
    desk.go(server.page)
    desk.sees("Tables to trust")
    desk.ask("window.same = document.querySelector('.card')")
    newest = last_entry(shown.table(user_actions.TABLE))
    assert newest is not None

    more = replace(newest[1], batch=7, read=5, good=5, written=5, quarantined={})
    rows = [{"action_id": f"b{n}", "user_id": WHO} for n in range(5)]
    written(shown.table(user_actions.TABLE), rows, more.encoded())

    desk.sees("6 rows")
    assert desk.ask("window.same === document.querySelector('.card')") is True


def test_a_server_without_a_lake_shows_the_tables_that_are_declared(tmp_path: Path) -> None:
    """Nothing was written yet, and that is no error."""
    page = page_of(Lake(tmp_path / "none"))

    assert {each["verdict"] for each in page.overview()["tables"]} == {"nothing written"}
    assert datetime.fromisoformat(page.overview()["looked_at"]).tzinfo is not None
