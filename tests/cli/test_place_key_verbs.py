"""A project whose events have no id: `run`, `verify` with a killed stream, and what the verbs that read say of copies."""

from pathlib import Path

import orjson
import pytest

from strandline.core.topic import RECEIVED
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from tests.cli.typed import Answer, strandline
from tests.support import by_hand
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

BRONZE = '''"""Clicks as received."""

from strandline import Ingested, Topic

TABLE = Ingested(name="clicks", reads=(Topic(name="clicks", partitions=1),))
'''
SILVER = '''"""Clicks, which have no number."""

from pyspark.sql.types import StringType, StructType, TimestampType
from strandline import CARRIED, PLACE, Judged, required

from ..bronze import clicks as bronze

FIELDS = StructType().add("page", StringType()).add("event_at", TimestampType())


def clicks(events):
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="clicks",
    reads=(bronze.TABLE,),
    transform=clicks,
    key=PLACE,
    event_at="event_at",
    rules=required("page", "event_at"),
)
'''
SENT = ("home", "home", "home", "cart", "home", None, None, "cart")
"""The pages of clicks, all at one moment: of equal ones each counts, and what names none is held, each."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project with a lake whose bronze has them in four commits, and run its silver table."""
    root = tmp_path_factory.mktemp("shop")
    for name, text in {
        "__init__": "",
        "bronze/__init__": "",
        "bronze/clicks": BRONZE,
        "silver/__init__": "",
        "silver/clicks": SILVER,
    }.items():
        file = root / "shop" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "strandline.toml").write_text('[project]\ntables = "shop"\n')
    path = Lake(Place.of(root / ".lake")).open_for_writing().root / "bronze" / "clicks"
    by_hand.create(path, RECEIVED, PROPERTIES)
    for batch, first in enumerate(range(0, len(SENT), 2)):
        rows: list[tuple[object, ...]] = [
            ("clicks", 0, n, NOON, None, _payload(SENT[n]), [], batch, NOON, NOON)
            for n in (first, first + 1)
        ]
        entry = Entry(
            table="bronze.clicks",
            mode="available-now",
            stream="clicks=a1",
            batch=batch,
            source="clicks",
            offsets={"clicks/0": (first, first + 2)},
            read=2,
            good=2,
            written=2,
            newest_arrival=NOON.isoformat(),
        )
        by_hand.commit(path, [by_hand.table(RECEIVED, rows)], entry.encoded())
    typed(root, "run", "silver.clicks")
    return root


def typed(root: Path, *words: object) -> Answer:
    """Type a verb in the project, and see that it succeeds."""
    return strandline(*words, cwd=root, env={"STRANDLINE_LAKE": str(root / ".lake")}).succeeded()


def _rows(answer: Answer) -> list[dict[str, object]]:
    assert isinstance(answer.json, list)
    return answer.json


def _payload(page: str | None) -> bytes:
    return orjson.dumps({"page": page, "event_at": NOON.isoformat()})


@pytest.mark.whole
def test_a_stream_that_is_killed_and_a_batch_have_the_same_rows(shop: Path) -> None:
    """By a process of its own, which reads the declaration as a person's does."""
    answer = typed(shop, "verify", "silver.clicks", "--json")

    assert [each["equal"] for each in _rows(answer)] == [True]
    assert typed(shop, "query", "SELECT count(*) AS n FROM silver.clicks", "--json").json == [
        {"n": 6}
    ]


def test_no_verb_says_that_there_are_no_copies(shop: Path) -> None:
    """Nothing has looked for one: 0 would be a figure that was not measured."""
    ledger = typed(shop, "ledger", "silver.clicks")
    (sheet,) = _rows(typed(shop, "ledger", "silver.clicks", "--json"))
    tables = _rows(typed(shop, "tables", "--json"))

    assert "not looked for" in ledger.out
    assert "silver.clicks looks for no copies: its key is the place of a record" in ledger.out
    assert (sheet["duplicates"], sheet["keeps_copies"], sheet["balanced"]) == (0, True, True)
    assert {each["table"]: each["copies"] for each in tables} == {
        "bronze.clicks": None,
        "silver.clicks": "not looked for",
    }
    assert "not looked for" in typed(shop, "history", "silver.clicks").out
    assert "no copy of it is looked for" in typed(shop, "why", "clicks/0/1").out
    assert "missing:page" in typed(shop, "why", "clicks/0/6").out


def test_the_report_says_so(shop: Path) -> None:
    """On the page that is opened in the morning."""
    strandline(
        "report",
        "--day",
        f"{NOON:%Y-%m-%d}",
        cwd=shop,
        env={"STRANDLINE_LAKE": str(shop / ".lake")},
    )

    (page,) = (shop / ".lake").rglob("*.html")
    assert "not looked for" in page.read_text()
