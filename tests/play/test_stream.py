"""The same plan is the same stream, byte for byte, wherever and however it is made."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fleet.play.devices import Fleet
from fleet.play.plan import Plan
from tests.architecture.tree import search_path

ROOT = Path(__file__).parents[2]
UNTIL = datetime.fromisoformat("2026-11-20T00:00:00+00:00")
DAY = Plan(since=UNTIL - timedelta(days=1), until=UNTIL, events=20_000, seed=7)
FINGERPRINT = "7b3a431822e40851745a65a7f0b13af46a272bdcb9aca0b7f94e9872ef1506dc"
"""Of DAY. A change to the stream changes it, and benchmarks before and after cannot be compared."""


def fingerprint(plan: Plan, size: int = 1_000) -> str:
    digest = hashlib.sha256()
    for chunk in Fleet(plan).chunks(size):
        for key, value, at in zip(chunk.keys, chunk.values, chunk.arrived_at, strict=True):
            digest.update(b"%b\0%d\0%d\0" % (key, at, len(value)))
            digest.update(value)
    return digest.hexdigest()


@pytest.mark.whole
@pytest.mark.parametrize("size", [1, 7, 8_192, 100_000])
def test_the_size_of_a_chunk_changes_no_byte(size: int) -> None:
    """A run with a rate is cut finer than one at full speed and must be the same run."""
    plan = replace(DAY, events=1_200)

    assert fingerprint(plan, size) == fingerprint(plan, 999)


@pytest.mark.whole
def test_the_stream_is_the_same_on_every_machine_and_in_every_release() -> None:
    """Results of different days and machines are compared, so a change to the stream must change the fingerprint."""
    assert fingerprint(DAY) == FINGERPRINT


@pytest.mark.whole
@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_a_fresh_process_with_another_hash_seed_makes_the_same_stream(hash_seed: str) -> None:
    """Sets and dictionaries keyed by text are the usual way in which order gets lost."""
    program = (
        "import runpy; test = runpy.run_path('tests/play/test_stream.py');"
        "print(test['fingerprint'](test['DAY']))"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": search_path(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.strip() == FINGERPRINT


def test_another_seed_is_another_run() -> None:
    """Two runs in one lake must not be taken for copies of each other."""
    one, other = (
        {
            value
            for chunk in Fleet(replace(DAY, events=2_000, seed=seed)).chunks()
            for value in chunk.values
        }
        for seed in (1, 2)
    )

    # Only what has lost its event id can be the same: the empty, the cut, the text that is no JSON.
    assert all(len(value) < 20 for value in one & other)
