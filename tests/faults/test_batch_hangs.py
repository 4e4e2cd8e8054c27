"""SIGTERM ends a stream whose tables never come back: several at once, and beside a JVM that answers to nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from strandline.core.errors import TransientError
from strandline.engine.runtime.processes import family, has_ended
from tests.architecture.tree import search_path
from tests.support import project
from tests.support.many_tables import generated, sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPICS = 3
READINGS = 30
ENDS = 30.0
"""Seconds from a SIGTERM until the process is gone, with all that it has started."""
BEGINS = 300.0

TABLES = tuple(f"{layer}.many_{n}" for n in range(TOPICS) for layer in ("bronze", "silver"))
PLAIN = ".select(*CARRIED, *FIELDS.fieldNames())"
HANGS = """{plain}.filter(F.udf(_waits, "boolean")("id"))


def _waits(_):
    import time
    from pathlib import Path

    while not Path("{file}").exists():
        time.sleep(0.1)
    return True
"""


@pytest.mark.prove(alone="three minutes on two cores")
@pytest.mark.timeout(1200)
def test_a_stream_that_hangs_is_gone_half_a_minute_after_sigterm(tmp_path: Path) -> None:
    copy, answered = generated(tmp_path / "copy", TOPICS), tmp_path / "answered"
    for n in range(TOPICS):
        module = copy / "jobs" / "fleet" / "silver" / f"many_{n}.py"
        text = module.read_text().replace(PLAIN, HANGS.format(plain=PLAIN, file=answered))
        imports = "from pyspark.sql import DataFrame\nfrom pyspark.sql import functions as F\n"
        module.write_text(text.replace("from pyspark.sql import DataFrame\n", imports))
    typed(copy, "up")
    try:
        address = asked(copy, "status", "--json")["kafka"]
        sent(address, TOPICS, READINGS, datetime.now(UTC))  # noqa: TID251  # what bronze compares with its own clock
        for is_suspended in (False, True):
            code, took, said = ended(copy, tmp_path / "stream.log", is_suspended=is_suspended)
            print(f"suspended: {is_suspended}; gone after {took:.1f} s: {said[-300:]}", flush=True)  # noqa: T201  # the figures of the proof
            assert code == TransientError.exit_code, said
            # A thread that collects garbage may wait for the JVM as well, also that which would name the batches.
            named = "and did not move for 15 s, and Spark was killed" in said
            assert named or (is_suspended and "not ended 25 s after it was asked to" in said)
            assert took < ENDS
        answered.touch()
        typed(copy, "run", *TABLES)
        sheets = {sheet["table"]: sheet for sheet in asked(copy, "ledger", "--json")}
    finally:
        typed(copy, "down")
    for name in TABLES:
        assert (sheets[name]["good"], sheets[name]["balanced"]) == (READINGS, True), sheets[name]


def ended(copy: Path, log: Path, *, is_suspended: bool) -> tuple[int, float, str]:
    """Start a stream, wait until all hangs, send SIGTERM, and return its exit code, the seconds until it was gone, and what it said."""
    env = {**os.environ, "PYTHONPATH": search_path(copy), "STRANDLINE_LAKE": str(copy / "lake")}
    with log.open("wb") as out:
        stream = subprocess.Popen(
            (sys.executable, "-c", project.TYPED, "stream", *TABLES, "--every", "1s"),
            cwd=copy,
            env=env,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    theirs: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + BEGINS
        while not hangs(copy):
            assert stream.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(1)
        theirs = family(stream.pid)
        if is_suspended:
            for each in theirs[1:]:
                if each.name() == "java":
                    each.suspend()
        begun = time.monotonic()
        stream.send_signal(signal.SIGTERM)
        code = stream.wait(300)
        while not all(has_ended(each.pid) for each in theirs):
            assert time.monotonic() < begun + ENDS, f"{code} after {ENDS} s: {log.read_text()}"
            time.sleep(0.05)
        return code, time.monotonic() - begun, log.read_text()
    finally:
        for each in theirs or family(stream.pid):
            if each.is_running():
                each.kill()


def hangs(copy: Path) -> bool:
    """Return whether each silver table is at a batch that was handed to Python."""
    beat: dict[str, Any] = (asked(copy, "status", "--json")["stream"] or {}).get("tables", {})
    return sum((each["running"] or "").startswith("batch ") for each in beat.values()) == TOPICS


def typed(copy: Path, *words: str) -> str:
    return project.ran(copy, "-c", project.TYPED, *words)


def asked(copy: Path, *words: str) -> Any:  # noqa: ANN401  # an answer in JSON
    return json.loads(project.tried(copy, "-c", project.TYPED, *words).stdout)
