"""``strandline ui`` as whoever operates the lake has it: one command, a run from the page, Ctrl-C, and all is gone."""

import json
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.typed import start, strandline, succeeded

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

EVENTS = 3_000
PATIENCE = 300
WHERE = (
    "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"
)
LAUNCH = """
mutation ($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
STATUS = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
ASSETS = "{ assetNodes { assetKey { path } assetMaterializations(limit: 1) { runId } } }"


@dataclass(frozen=True, slots=True)
class Page:
    """What was started, and where it answers."""

    program: subprocess.Popen[bytes]
    lake: Path
    address: str

    def ask(self, question: str, **variables: object) -> Any:  # noqa: ANN401  # whatever was asked for
        """Ask Dagster as its page does."""
        body = json.dumps({"query": question, "variables": variables}).encode()
        request = urllib.request.Request(  # noqa: S310  # our own address
            f"{self.address}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # as above
            return json.load(answer)["data"]

    def run(self, job: str) -> str:
        """Launch a job and return how it ended."""
        (code,) = self.ask(WHERE)["repositoriesOrError"]["nodes"]
        selector = {
            "repositoryLocationName": code["location"]["name"],
            "repositoryName": code["name"],
            "jobName": job,
        }
        params = {"selector": selector, "mode": "default", "runConfigData": {}}
        launched = self.ask(LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            status = self.ask(STATUS, id=launched["run"]["runId"])["runOrError"]["status"]
            if status in {"SUCCESS", "FAILURE", "CANCELED"}:
                return str(status)
            time.sleep(1)
        return "still running"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """Start it in an empty lake, and send events when it answers."""
    lake, log = tmp_path / "lake", tmp_path / "ui.log"
    program = start("ui", "--lake", lake, log=log)
    try:
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(r"Dagster is at (http\S+);", log.read_text())) is None:
            assert program.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        yield Page(program, lake, found[1])
    finally:
        if program.poll() is None:
            program.send_signal(signal.SIGINT)
        program.wait(60)


def test_a_run_from_the_page_fills_all_tables_and_ctrl_c_leaves_nothing_running(page: Page) -> None:
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
        refused = strandline("ui", "--lake", lake, "--port", other.getsockname()[1])

    assert refused.code == 2
    assert "--port" in refused.err
    assert strandline("status", "--lake", lake, "--json").json["broker_pid"] is None
