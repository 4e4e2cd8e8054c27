"""Dagster's history in PostgreSQL by one setting: nothing else is typed, and the password is shown nowhere."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
from strandline import catalog

from strandline_dagster import schedules
from tests.cli.inside import succeeded
from tests.cli.typed import strandline
from tests.faults.lives import SLICE
from tests.support.clicks import see_filled
from tests.support.console import Console, opened
from tests.support.planted import holding, lines
from tests.support.postgres import PASSWORD, Server, served

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STOP = """
mutation ($id: String!) {
  terminateRun(runId: $id, terminatePolicy: MARK_AS_CANCELED_IMMEDIATELY) { __typename }
}
"""
TABLES = SLICE[:2]
SECRETS = (PASSWORD, quote(PASSWORD, safe=""))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve an empty database to a user who owns it and is nothing else."""
    with served() as running:
        running.give_history()
        yield running


@pytest.fixture(scope="module")
def setting(server: Server) -> dict[str, str]:
    """Return the one setting."""
    return {"STRANDLINE_POSTGRES": server.url("history", user="dagster")}


@pytest.fixture(scope="module")
def page(setting: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Start ``strandline ui`` with it."""
    with opened(tmp_path_factory.mktemp("ui"), env=setting) as page:
        succeeded("produce", "--events", 3_000, "--lake", page.lake)
        yield page


def test_a_run_from_the_page_fills_the_tables_that_were_chosen(page: Console) -> None:
    """The lake is as after ``strandline run`` with their names; `make prove` runs all of them by clicks."""
    steps = [schedules.name(table) for table in catalog.tables() if table.id in TABLES]

    assert page.run("catch_up", *steps) == "SUCCESS"

    see_filled(page, TABLES)


@pytest.mark.whole
def test_a_second_one_is_refused(page: Console, setting: dict[str, str]) -> None:
    """Two daemons of one home would start every run twice."""
    second = strandline("ui", "--lake", page.lake, env=setting)

    assert second.code == 2
    assert "runs already" in second.err


@pytest.mark.whole
def test_runs_and_events_are_in_the_database_and_not_in_the_lake(
    page: Console, server: Server
) -> None:
    """A run that is stopped before its Spark starts, and a materialization that is reported from outside."""
    run = page.launch("catch_up")
    page.ask(STOP, id=run)
    # The slash in the end is needed.
    page.post("report_asset_materialization/silver/device_telemetry/", {"metadata": {"rows": 7}})

    assert server.ask(f"SELECT status FROM runs WHERE run_id = '{run}'", "history") == [  # noqa: S608  # Dagster's own
        ("CANCELED",)
    ]
    events = "SELECT dagster_event_type FROM event_logs WHERE asset_key LIKE '%device_telemetry%'"
    assert ("ASSET_MATERIALIZATION",) in server.ask(events, "history")
    ticks = server.ask("SELECT count(*) FROM daemon_heartbeats", "history")
    assert ticks[0][0] > 0
    assert list((page.lake / "_dagster").rglob("*.db")) == []


@pytest.mark.whole
def test_the_password_stays_in_the_environment(page: Console) -> None:
    """Not in a file of the lake, not in a list of processes, not on the page that shows the settings."""
    info = page.ask("{ instance { info } }")["instance"]["info"]
    words = lines(psutil.Process(page.program.pid).children(recursive=True))

    assert "run_retries" in info
    assert "STRANDLINE_POSTGRES" in (page.lake / "_dagster/dagster.yaml").read_text()
    assert words
    for secret in SECRETS:
        assert secret not in info
        assert [word for word in words if secret in word] == []
    assert holding(SECRETS, page.lake) == []


@pytest.mark.whole
def test_another_lake_cannot_share_the_database_meanwhile(
    page: Console, setting: dict[str, str], tmp_path: Path
) -> None:
    """Each daemon would start the other's runs; nothing is started, and nothing was."""
    lake = tmp_path / "another"

    refused = strandline("ui", "--lake", lake, env=setting)

    assert page.program.poll() is None
    assert refused.code == 2
    assert "a database of its own" in refused.err
    assert {path.name for path in lake.rglob("*")} == {"_dagster", "lock"}


@pytest.mark.whole
def test_a_database_that_does_not_answer_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """With what to do, and without the password."""
    lake = tmp_path / "lake"
    nowhere = {"STRANDLINE_POSTGRES": "postgresql://dagster:hunter2@127.0.0.1:1/history"}

    refused = strandline("ui", "--lake", lake, env=nowhere)
    doctor = strandline("doctor", "--lake", lake, env=nowhere)

    assert refused.code == 3
    assert "does not answer" in refused.err
    assert "hint: start it" in refused.err
    assert {path.name for path in lake.rglob("*")} == {"_dagster", "lock"}
    assert "missing  history: " in doctor.out
    assert "hunter2" not in refused.printed + doctor.printed
