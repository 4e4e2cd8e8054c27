"""All who are on the page about speed still do each workload, with the right rows, on a few events."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.nexmark.workload import CHAINS, FLINK, OURS, QUERY
from tests.benchmarks.peers import WORKLOADS
from tests.benchmarks.speed_page import PAGE

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(2_800),
    pytest.mark.prove(alone="twenty minutes, jars of others' and a JVM for each of them"),
]


def test_every_contestant_makes_the_right_rows_of_every_workload_and_query(tmp_path: Path) -> None:
    """A peer that a new release of ours or of its own has broken would be missed on the page alone.

    It is the one command that makes the page, from an empty folder.
    """
    few = ("--events", 20_000, "--rounds", 1, "--out", tmp_path, "--work", tmp_path / "w")
    command = [sys.executable, "-m", "tests.benchmarks", "all", *map(str, few)]

    subprocess.run(command, check=False, timeout=2_700)  # a target may be missed with so few events

    found = json.loads((tmp_path / "peers.json").read_text())["workloads"]
    measured = {row: {s["contestant"] for s in of["samples"]} for row, of in found.items()}
    absent = {who for of in found.values() for who in of["absent"]}
    assert {row: of["refused"] for row, of in found.items()} == {row: {} for row in WORKLOADS}
    assert measured == {
        row: {who for who in of.contestants if who.partition("/")[0] not in absent}
        for row, of in WORKLOADS.items()
    }
    queries = json.loads((tmp_path / "nexmark.json").read_text())
    answered = {(s["row"], s["contestant"]) for s in queries["samples"] if s["part"] == QUERY}
    refused = {(of["query"], of["contestant"]) for of in queries["refused"]}
    assert refused <= {
        ("q6", FLINK)
    }  # an order within another order, which NEXMark's own Flink leaves out
    assert answered == {
        (query, who)
        for query in CHAINS
        for who in (OURS, FLINK)
        if who not in absent and (query, who) not in refused
    }
    page = (tmp_path / PAGE.name).read_text()
    assert ("## NEXMark, beside Flink" in page) == (FLINK not in absent)
