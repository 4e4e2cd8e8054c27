"""The streaming benchmark of Yahoo as a user writes it, in three modules: filter, join with campaigns, count per campaign and ten seconds.

Three files, 65 lines with their docstrings, and no line of a job: nothing says which mode runs.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from shutil import copytree

import orjson
import pytest

from strandline.core.topic import RECEIVED
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime.clock import now
from tests.cli.typed import Answer, strandline
from tests.support import by_hand
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

MODULES = {
    "bronze/ad_events": '''"""Events of advertisements, as received."""

from strandline import Ingested, Topic

TABLE = Ingested(name="ad_events", reads=(Topic(name="ad_events", partitions=1),))
''',
    "silver/ad_events": '''"""Events of advertisements: views, clicks and purchases."""

from pyspark.sql.types import StringType, StructType, TimestampType
from strandline import CARRIED, Judged, one_of, required

from ..bronze import ad_events as bronze

FIELDS = (
    StructType()
    .add("event_id", StringType())
    .add("ad_id", StringType())
    .add("event_type", StringType())
    .add("event_at", TimestampType())
)


def ad_events(events):
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="ad_events",
    reads=(bronze.TABLE,),
    transform=ad_events,
    key=("event_id",),
    event_at="event_at",
    rules=(*required("ad_id"), one_of("event_type", ("view", "click", "purchase"))),
)
''',
    "gold/campaign_views": '''"""Views per campaign and ten seconds."""

from pyspark.sql import functions as F
from strandline import Static, Windowed

from ..silver import ad_events

CAMPAIGNS = Static(
    name="campaigns", file="campaigns.csv", columns="ad_id string, campaign string", key=("ad_id",)
)


def campaign_views(events):
    views = CAMPAIGNS.joined(events.where("event_type = 'view'"), at="event_at")
    counted = views.groupBy("campaign", F.window("event_at", "10 seconds").alias("w"))
    return counted.agg(F.count("*").alias("views")).selectExpr(
        "campaign", "w.start AS window_from", "w.end AS window_until", "views"
    )


TABLE = Windowed(
    name="campaign_views",
    reads=(ad_events.TABLE,),
    transform=campaign_views,
    key=("campaign", "window_from"),
    key_null_ok=("campaign",),
    window="10 seconds",
    window_from="window_from",
    closes_at="window_until",
    static=(CAMPAIGNS,),
)
''',
}
LATER = now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=2)
"""Of events for which the second content holds: it is noticed now, and holds some minutes later."""

TABLES = ("silver.ad_events", "gold.campaign_views")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project, run it with one content, then with another and events of its time."""
    root = tmp_path_factory.mktemp("ads")
    root /= "ads"
    strandline("init", root).succeeded()
    for drafted in (*(root / "ads").glob("*/[a-z]*.py"), root / "ads" / "play.py"):
        drafted.unlink()
    for name, text in MODULES.items():
        (root / "ads" / f"{name}.py").write_text(text)
    (root / "campaigns.csv").write_text("ad_id,campaign\na1,spring\na2,summer\n")
    received(root, ("a1", "a1", "a2", "a9"), NOON)
    typed(root, "run", *TABLES)
    (root / "campaigns.csv").write_text("ad_id,campaign\na1,winter\na9,autumn\n")
    received(root, ("a1", "a2", "a9", "a9", "a9"), LATER)
    received(root, ("a1",), LATER + timedelta(hours=3))
    typed(root, "run", *TABLES)
    (root / "campaigns.csv").unlink()
    return root


def received(root: Path, ads: Sequence[str], at: datetime) -> None:
    """Append a commit of bronze with a view of each advertisement, a second apart, and a click of the first."""
    path = Lake(Place.of(root / ".lake")).open_for_writing().root / "bronze" / "ad_events"
    by_hand.create(path, RECEIVED, PROPERTIES)
    batch = latest_version(path)
    first = batch * 100
    sent = [(ad, "view") for ad in ads] + [(ads[0], "click")]
    rows: list[tuple[object, ...]] = [
        (
            "ad_events",
            0,
            first + n,
            at,
            None,
            _payload(first + n, *each, at + timedelta(seconds=n)),
            [],
            batch,
            at + timedelta(minutes=1),
            at,
        )
        for n, each in enumerate(sent)
    ]
    entry = Entry(
        table="bronze.ad_events",
        mode="available-now",
        stream="ad_events=a1",
        batch=batch,
        source="ad_events",
        offsets={"ad_events/0": (first, first + 100)},
        read=len(rows),
        good=len(rows),
        written=len(rows),
        without_record=100 - len(rows),
        newest_arrival=at.isoformat(),
    )
    by_hand.commit(path, [by_hand.table(RECEIVED, rows)], entry.encoded())


def _payload(number: int, ad: str, kind: str, at: datetime) -> bytes:
    said = {"event_id": f"e{number}", "ad_id": ad, "event_type": kind, "event_at": at.isoformat()}
    return orjson.dumps(said)


def typed(root: Path, *words: object) -> Answer:
    """Type a verb in the project, and see that it succeeds."""
    return strandline(*words, cwd=root, env={"STRANDLINE_LAKE": str(root / ".lake")}).succeeded()


def counted(root: Path) -> dict[tuple[object, bool], object]:
    """Return the views of each campaign, before and after the change, as they are in the table."""
    sql = (
        "SELECT campaign, window_from > '2026-11-21' AS is_later, sum(views)::INT AS views "
        "FROM gold.campaign_views GROUP BY ALL"
    )
    found = typed(root, "query", sql, "--json").json
    assert isinstance(found, list)
    return {(each["campaign"], each["is_later"]): each["views"] for each in found}


COUNTED = {
    ("spring", False): 2,
    ("summer", False): 1,
    (None, False): 1,
    ("winter", True): 1,
    ("autumn", True): 3,
    (None, True): 1,
}


@pytest.mark.whole
def test_the_verbs_that_read_say_with_which_version_rows_were_joined(shop: Path) -> None:
    """And the file is gone meanwhile."""
    tables = typed(shop, "tables", "--json").json
    assert isinstance(tables, list)
    known = {each["table"]: each for each in tables}
    ledger = typed(shop, "ledger").out
    versions = typed(
        shop,
        "query",
        'SELECT ad_id, campaign, _version, _is_gone FROM static.campaigns ORDER BY "_version", ad_id',
        "--json",
    ).json
    window = LATER.strftime("%Y-%m-%d %H:%M:%S")
    why = typed(shop, "why", f"winter,{window}", "--in", "gold.campaign_views", "--json").json

    followed = typed(shop, "why", "ad_events/0/102", "--in", "gold.campaign_views").out

    assert "it is in gold.campaign_views" in followed
    assert counted(shop) == COUNTED
    assert all(sheet["balanced"] for sheet in _rows(typed(shop, "ledger", "--json")))
    assert known["gold.campaign_views"]["reads"] == "silver.ad_events, static.campaigns"
    assert (known["static.campaigns"]["rows"], known["static.campaigns"]["version"]) == (2, 2)
    assert (
        "joined to gold.campaign_views: static.campaigns, version 2, which holds of events from"
        in ledger
    )
    assert versions == [
        {"ad_id": "a1", "campaign": "spring", "_version": 1, "_is_gone": False},
        {"ad_id": "a2", "campaign": "summer", "_version": 1, "_is_gone": False},
        {"ad_id": "a1", "campaign": "winter", "_version": 2, "_is_gone": False},
        {"ad_id": "a2", "campaign": None, "_version": 2, "_is_gone": True},
        {"ad_id": "a9", "campaign": "autumn", "_version": 2, "_is_gone": False},
    ]
    assert isinstance(why, dict)
    (joined,) = why["evidence"]["joined"]
    assert (joined["static"], joined["version"]) == ("static.campaigns", 2)


@pytest.mark.whole
def test_a_stream_that_is_killed_and_a_batch_join_the_versions_of_the_lake(shop: Path) -> None:
    """The trial has another clock and no file: it takes nothing in."""
    (found,) = _rows(typed(shop, "verify", "gold.campaign_views", "--json"))

    assert (found["equal"], found["differences"]) == (True, [])
    versions = found["versions"]
    assert isinstance(versions, dict)
    assert versions["static.campaigns"] == 2


@pytest.mark.whole
def test_a_backfill_a_rebuild_and_a_request_to_forget_join_them_too(
    shop: Path, tmp_path: Path
) -> None:
    """A view that is forgotten is counted no more, by the version of its time."""
    here = copytree(shop, tmp_path / "ads")
    ends = ("--since", "2026-11-20T00:00:00Z", "--until", "2026-11-21T00:00:00Z")
    done = typed(here, "backfill", "gold.campaign_views", *ends)
    assert counted(here) == COUNTED, done.out
    typed(here, "rebuild", "gold.campaign_views")
    typed(here, "promote", "gold.campaign_views")
    assert counted(here) == COUNTED
    typed(here, "preflight")
    typed(here, "forget", "--where", "event_id = 'e0'", "--go")

    assert counted(here) == {**COUNTED, ("spring", False): 1}
    assert "version 2" in typed(here, "ledger").out
    typed(here, "run", *TABLES)
    assert counted(here) == {**COUNTED, ("spring", False): 1}


def test_it_is_three_files_and_sixty_five_lines() -> None:
    """As long as is said above."""
    lines = [line for text in MODULES.values() for line in text.splitlines()]

    assert (len(MODULES), len(lines)) == (3, 65)


def _rows(answer: Answer) -> list[dict[str, object]]:
    assert isinstance(answer.json, list)
    return answer.json
