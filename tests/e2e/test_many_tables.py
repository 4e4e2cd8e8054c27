"""Two hundred and five tables in one stream, under the usual limit of open files.

The tables of sixty generated topics stream beside the example's. Every table that has something to read gets its rows, the
counts are those that were sent, and a stop ends it all.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import search_path
from tests.support import project
from tests.support.many_tables import generated, sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPICS = 60
READINGS = 30
USUAL = ("/bin/sh", "-c", 'ulimit -Sn 1024 && exec "$0" "$@"')
LONGEST = 1_500.0
ENDS = 30.0
"""Seconds: until each table has its rows, and from a SIGTERM until the process is gone."""


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Path]:
    """Return a copy of the project with the generated tables, and events in all topics of its own broker."""
    copy = generated(tmp_path / "copy", TOPICS)
    typed(copy, "up")
    try:
        typed(copy, "produce", "--events", "2000", "--hours", "2")
        address = asked(copy, "status", "--json")["kafka"]
        sent(address, TOPICS, READINGS, datetime.now(UTC))  # noqa: TID251  # what bronze compares with its own clock
        yield copy
    finally:
        typed(copy, "down")


def typed(copy: Path, *words: str) -> str:
    return project.ran(copy, "-c", project.TYPED, *words)


def asked(copy: Path, *words: str) -> Any:  # noqa: ANN401  # an answer in JSON
    return json.loads(project.tried(copy, "-c", project.TYPED, *words).stdout)


def beat(copy: Path) -> dict[str, Any]:
    """Return what the stream says of its tables."""
    return (asked(copy, "status", "--json")["stream"] or {}).get("tables", {})


@pytest.mark.prove(alone="ten minutes on two cores")
def test_two_hundred_tables_get_their_rows_under_the_usual_limit_and_a_stop_ends_them(
    many: Path, tmp_path: Path
) -> None:
    log = tmp_path / "stream.log"
    env = {**os.environ, "PYTHONPATH": search_path(many), "STRANDLINE_LAKE": str(many / "lake")}
    words = (*USUAL, sys.executable, "-c", project.TYPED, "stream", "--every", "5s")
    with log.open("wb") as out:
        stream = subprocess.Popen(
            words, cwd=many, env=env, stdout=out, stderr=out, start_new_session=True
        )
    begun = time.monotonic()
    try:
        wanted = {f"{layer}.many_{n}" for n in range(TOPICS) for layer in ("bronze", "silver")}
        while missing := wanted - {name for name, each in beat(many).items() if each["batches"]}:
            assert stream.poll() is None, log.read_text()[-3000:]
            seconds = time.monotonic() - begun
            print(f"{seconds:.0f} s: {len(missing)} without rows", flush=True)  # noqa: T201  # shown with -s
            assert seconds < LONGEST, f"{len(missing)} without rows, such as {min(missing)}"
            time.sleep(5)
        took = time.monotonic() - begun

        stream.send_signal(signal.SIGTERM)
        stopped = time.monotonic()
        code = stream.wait(300)
        ended = time.monotonic() - stopped
    finally:
        if stream.poll() is None:
            stream.kill()
    print(f"every table after {took:.0f} s; ended {ended:.0f} s after SIGTERM", flush=True)  # noqa: T201  # the figures of the proof

    assert code == 0, log.read_text()[-3000:]
    sheets = {sheet["table"]: sheet for sheet in asked(many, "ledger", "--json")}
    for name in sorted(wanted):
        assert sheets[name]["good"] == READINGS, sheets[name]
        assert sheets[name]["balanced"], sheets[name]
    assert ended < ENDS
