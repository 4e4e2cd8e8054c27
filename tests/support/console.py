"""Dagster as ``strandline ui`` starts it, asked as its own pages ask it."""

import json
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.cli.inside import strandline
from tests.cli.typed import start

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
    ... on InvalidSubsetError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
STATUS = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
ENDED = {"SUCCESS", "FAILURE", "CANCELED"}
RUNS = """
query ($job: String!) {
  runsOrError(filter: {pipelineName: $job}) { ... on Runs { results { runId status creationTime } } }
}
"""


@dataclass(frozen=True, slots=True)
class Console:
    """What was started, and where it answers."""

    program: subprocess.Popen[bytes]
    lake: Path
    address: str

    def ask(self, question: str, **variables: object) -> Any:  # noqa: ANN401  # whatever was asked for
        """Ask Dagster as its page does."""
        return self.post("graphql", {"query": question, "variables": variables})["data"]

    def post(self, path: str, body: Mapping[str, object]) -> Any:  # noqa: ANN401  # as above
        """Post a body to one of Dagster's addresses."""
        request = urllib.request.Request(  # noqa: S310  # our own address
            f"{self.address}/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # as above
            return json.load(answer)

    def launch(self, job: str, *steps: str) -> str:
        """Launch a job with all of its steps, or with those that are named, and return the run's name."""
        (code,) = self.ask(WHERE)["repositoriesOrError"]["nodes"]
        selector = {
            "repositoryLocationName": code["location"]["name"],
            "repositoryName": code["name"],
            "jobName": job,
            **({"solidSelection": steps} if steps else {}),
        }
        params = {"selector": selector, "mode": "default", "runConfigData": {}}
        launched = self.ask(LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def run(self, job: str, *steps: str) -> str:
        """Launch a job, with all of its steps or some, and return how it ended."""
        return self.ended(self.launch(job, *steps))

    def ended(self, run: str) -> str:
        """Wait until a run has ended, and return how."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            status = self.ask(STATUS, id=run)["runOrError"]["status"]
            if status in ENDED:
                return str(status)
            time.sleep(1)
        return "still running"

    def runs(self, job: str) -> list[str]:
        """Return the status of each run of a job, the newest first."""
        return [run["status"] for run in self._runs(job)]

    def asked_at(self, job: str) -> float:
        """Return when a job's newest run was asked for, in seconds since 1970."""
        return float(self._runs(job)[0]["creationTime"])

    def newest(self, job: str) -> str:
        """Return the name of a job's newest run."""
        return str(self._runs(job)[0]["runId"])

    def _runs(self, job: str) -> Any:  # noqa: ANN401  # as above
        return self.ask(RUNS, job=job)["runsOrError"]["results"]


@contextmanager
def opened(folder: Path, *words: object, env: Mapping[str, str] | None = None) -> Iterator[Console]:
    """Start it for the lake of a folder; in the end see that Ctrl-C ends it and leaves nothing running."""
    lake, log = folder / "lake", folder / "ui.log"
    program = start("ui", *words, "--lake", lake, log=log, env=env)
    try:
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(r"Dagster is at (http\S+);", log.read_text())) is None:
            assert program.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        yield Console(program, lake, found[1])
    finally:
        theirs = psutil.Process(program.pid).children(recursive=True)
        program.send_signal(signal.SIGINT)
        code = program.wait(PATIENCE)  # a stream ends its batches first
    _, left = psutil.wait_procs(theirs, timeout=60)
    assert (code, left) == (0, []), log.read_text()
    assert strandline("status", "--lake", lake, "--json").json["broker_pid"] is None
