"""Every table that came with the project is deleted, and others take their place."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree

import pytest
from confluent_kafka import Producer

from strandline.engine.kafka.broker import create_topic
from tests.cli.inside import succeeded
from tests.support.project import TYPED, copied, ran, tried

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.whole]

MORNING = datetime(2026, 11, 20, 8, tzinfo=UTC)
MINUTES = [*range(60), *range(5), 24 * 60]
"""An order a minute for an hour, five of them twice, and one a day later that closes the hour's windows."""

BROKEN = 3
PER_WINDOW = "SELECT events, count(*) AS n FROM gold.orders_10m GROUP BY events"
ASKED = {
    "ledger": ["ledger", "--json"],
    "query": ["query", PER_WINDOW, "--json"],
    "verify": ["verify", "--all", "--splits", "2", "--kills", "0", "--json"],
}
IN_TURN = """
import contextlib, io, json, sys
from strandline.cli.main import main

def printed(words):
    sys.argv[1:] = words
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as end:
            assert not end.code, (words, end.code)
    return out.getvalue()

print(json.dumps([printed(words) for words in json.loads(sys.argv[1])]))
"""
EMPTY = '"""Only the tables of this project."""\n'


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a broker with a topic of orders, some twice and some broken."""
    lake = tmp_path_factory.mktemp("broker")
    found: object = succeeded("up", "--lake", lake, "--json").json
    assert isinstance(found, dict)
    try:
        create_topic(found["address"], "orders", 1, {})
        producer = Producer({"bootstrap.servers": found["address"]})
        for minute in MINUTES:
            at = MORNING + timedelta(minutes=minute)
            order = {"event_id": f"o{minute}", "event_at": at.isoformat()}
            arrived = int(at.timestamp() * 1000)
            producer.produce("orders", json.dumps(order), f"o{minute}", timestamp=arrived)
        for _ in range(BROKEN):
            producer.produce("orders", b"no order", b"o0", timestamp=arrived)
        assert producer.flush(30) == 0
        yield found["address"]
    finally:
        succeeded("down", "--lake", lake)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with nothing but one table in each layer."""
    folder = copied(tmp_path_factory.mktemp("project"))
    rmtree(folder / "jobs/fleet/play")
    (folder / "jobs/fleet/alerts.py").unlink()
    for layer in ("bronze", "silver", "gold", "models"):
        for module in (folder / "jobs" / "fleet" / layer).glob("*.py"):
            module.unlink()
        (folder / "jobs" / "fleet" / layer / "__init__.py").write_text(EMPTY)
    typed(folder, "new", "topic", "orders")
    typed(folder, "new", "silver", "orders", "--reads", "bronze.orders")
    typed(folder, "new", "gold", "orders_10m", "--reads", "silver.orders")
    return folder


@pytest.fixture(scope="module")
def answers(project: Path, address: str) -> dict[str, str]:
    """Fill its lake from the broker, and return what each command then printed; one process, which starts Spark once."""
    words = [["run"], *ASKED.values()]
    printed = ran(project, "-c", IN_TURN, json.dumps(words), env={"STRANDLINE_KAFKA": address})
    return dict(zip(["run", *ASKED], json.loads(printed.splitlines()[-1]), strict=True))


def typed(project: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    return ran(project, "-c", TYPED, *words, env=env)


@pytest.mark.prove(alone="a minute")
def test_its_events_are_accounted_for(answers: dict[str, str]) -> None:
    """In the same ledger as the tables that were there before."""
    sheets = json.loads(answers["ledger"])

    assert [sheet["table"] for sheet in sheets] == [
        "bronze.orders",
        "silver.orders",
        "gold.orders_10m",
    ]
    assert all(sheet["balanced"] for sheet in sheets)
    silver = sheets[1]
    assert (silver["good"], silver["duplicates"], sum(silver["quarantined"].values())) == (61, 5, 3)


@pytest.mark.prove(alone="a minute")
def test_its_answers_are_right(answers: dict[str, str]) -> None:
    """Sixty orders in windows that are closed; that of the next day is open."""
    assert json.loads(answers["query"]) == [{"events": 1, "n": 60}]


@pytest.mark.prove(alone="a minute")
def test_its_tables_have_certificates(answers: dict[str, str]) -> None:
    """One batch and a stream give the same rows, also with other people's functions."""
    found = json.loads(answers["verify"])

    assert {each["table"]: each["equal"] for each in found} == {
        "silver.orders": True,
        "gold.orders_10m": True,
    }


def test_dagster_has_them_as_assets(project: Path) -> None:
    """Nothing lists tables twice."""
    script = (
        "from strandline_dagster.definitions import DEFINITIONS as defs;"
        "print(sorted(key.to_user_string() for key in defs.resolve_all_asset_keys()))"
    )

    found = ran(project, "-c", script)

    assert all(f"{layer}/orders" in found for layer in ("bronze", "silver", "gold"))


def test_set_up_prepares_spark_with_whatever_tables_there_are(project: Path) -> None:
    """It runs a few of them, and must not know their names."""
    script = "from strandline.engine.service.class_archive import _examples; print([table.id for table in _examples()])"

    assert "gold.orders_10m" in ran(project, "-c", script)


@pytest.mark.parametrize("verb", ["demo", "produce"])
def test_a_verb_of_the_removed_playground_is_an_error_with_a_hint(verb: str, project: Path) -> None:
    """And the help goes on without it."""
    done = tried(project, "-c", TYPED, verb)

    assert done.returncode == 2
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    help_text = typed(project, "--help")
    assert " verify " in help_text
    assert f" {verb} " not in help_text
