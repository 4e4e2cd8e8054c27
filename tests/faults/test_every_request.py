"""Ended after any request to the object store, an operation is done again and ends as if nothing had happened.

What tests/faults/test_every_write.py does on a disk: an operation runs once, each request that changes the lake is noted,
and for each of them the lake is made as a kill after it leaves it. The same is typed again, and the lake must be that of
the run that was not killed.
"""

import os
import random
from collections.abc import Mapping
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.cli import typed
from tests.faults.disk import outcomes
from tests.faults.disk.operations import OPERATIONS, PROGRAM, Operation, faults, state
from tests.faults.disk.programs import PROGRAMS
from tests.faults.disk.trial import wrong
from tests.faults.store.journal import Journal, contents
from tests.support import engine, lakes
from tests.support.clouds import cloud_of
from tests.support.proofs import Times
from tests.support.relay import relaying

pytestmark = [
    pytest.mark.core,
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not lakes.is_on_store(), reason="on a disk: test_every_write.py"),
]

NAMES = (
    *("first run", "next run", "batch run", "replay", "discard", "backfill"),
    *("rebuild", "promote", "undo", "close books"),
)
CORE = tuple(each for each in OPERATIONS if each.name in NAMES)


@pytest.mark.prove
def test_an_operation_that_ends_after_any_request_ends_like_one_that_does_not(
    spark: SparkSession,
    request: pytest.FixtureRequest,
    anywhere: Place,
    chance: random.Random,
    times: Times,
) -> None:
    """An operation at three requests, in the long form all of them at a sample."""
    failed: list[str] = []
    cloud = cloud_of(request.getfixturevalue(lakes.SERVERS[lakes.SCHEME]))
    most = times(3, 40)
    for operation in chance.sample(CORE, min(len(CORE), times(1, len(CORE)))):
        folder = anywhere / operation.name.replace(" ", "-")
        seed = operation.seed(spark, Lake(folder / "seed").open_for_writing())
        whole = Lake(folder / "whole")
        lakes.copy(seed.root, whole.root)
        journal = Journal(whole.root)
        with relaying(cloud.address, journal.begin, journal.end) as passed:
            done(operation, whole, cloud.through(passed.address))
        assert faults(whole) == []
        failed += ends_alike(operation, journal, seed, whole, chance, most)
        engine.forget()
    assert not failed, "\n".join(failed)


def done(operation: Operation, lake: Lake, where: Mapping[str, str]) -> None:
    """Do an operation on the store at another address: a verb in a process of its own, whose Spark goes there as well."""
    if operation.words[0] == PROGRAM:
        with patch.dict(os.environ, where):
            PROGRAMS[operation.words[1]](lake)
    else:
        typed.succeeded(*operation.words, "--lake", lake.root, env=where)


def ends_alike(  # noqa: PLR0913, PLR0917  # the operation, its lakes, and which moments
    operation: Operation,
    journal: Journal,
    seed: Lake,
    whole: Lake,
    chance: random.Random,
    most: int,
) -> list[str]:
    """End an operation after some of its requests; return where its second run leaves something else."""
    expected, number = state(whole), len(journal.changes)
    folder = whole.root.parent
    copy = journal.made(seed, Lake(folder / "all"), number)
    assert contents(copy.root) == contents(whole.root), "the journal is not the whole truth"
    failed = []
    chosen = sorted(chance.sample(range(number + 1), min(most, number + 1)))
    for count in chosen:
        lake = journal.made(seed, Lake(folder / f"after-{count}"), count)
        if found := wrong(operation, lake, expected):
            last = journal.changes[count - 1].line if count else "nothing"
            failed.append(f"{operation.name}, after request {count} of {number} ({last}): {found}")
        else:
            lake.root.remove()
    outcomes.keep(
        f"ended after a request of `{operation.name}` to an object store",
        f"{len(chosen)} of {number + 1} moments",
        failed,
    )
    return failed
