"""``strandline ui`` as an operator uses it: one command, a run from the page, Ctrl-C, and no process is left."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli import typed
from tests.cli.inside import strandline, succeeded
from tests.support.console import Console, opened

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

EVENTS = 3_000
ASSETS = "{ assetNodes { assetKey { path } assetMaterializations(limit: 1) { runId } } }"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Console]:
    """Start it in an empty lake."""
    with opened(tmp_path) as found:
        yield found


def test_a_run_from_the_page_fills_all_tables_and_ctrl_c_leaves_nothing_running(
    page: Console,
) -> None:
    """No process, no broker; and the lake is as after ``strandline run``."""
    succeeded("produce", "--events", EVENTS, "--hours", 3, "--lake", page.lake)

    ended = page.run("catch_up")
    nodes = page.ask(ASSETS)["assetNodes"]
    family = psutil.Process(page.program.pid).children(recursive=True)
    page.program.send_signal(signal.SIGINT)
    code = page.program.wait(120)
    _, left = psutil.wait_procs(family, timeout=10)

    assert ended == "SUCCESS"
    made = {"/".join(n["assetKey"]["path"]) for n in nodes if n["assetMaterializations"]}
    tables: Any = succeeded("tables", "--lake", page.lake, "--json").json
    assert made == {table["table"].replace(".", "/") for table in tables}
    sheets: Any = succeeded("ledger", "--lake", page.lake, "--json").json
    assert all(sheet["balanced"] for sheet in sheets)
    assert code == 0
    assert not left
    assert strandline("status", "--lake", page.lake, "--json").json["broker_pid"] is None


def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        refused = typed.strandline("ui", "--lake", lake, "--port", other.getsockname()[1])

    assert refused.code == 2
    assert "--port" in refused.err
    assert strandline("status", "--lake", lake, "--json").json["broker_pid"] is None


def test_a_second_one_is_refused_and_one_that_was_killed_is_ended_by_the_next(
    page: Console,
) -> None:
    """Two daemons of one home would start every run twice."""
    second = typed.strandline("ui", "--lake", page.lake)
    family = psutil.Process(page.program.pid).children(recursive=True)
    page.program.kill()
    page.program.wait()
    orphans = [each for each in family if each.is_running()]

    with opened(page.lake.parent, name="second"):
        _, left = psutil.wait_procs(orphans, timeout=1)

    assert second.code == 2
    assert "runs already" in second.err
    assert orphans, "Dagster outlives who started it"
    assert not [each for each in left if "dagster" in " ".join(each.cmdline())]
