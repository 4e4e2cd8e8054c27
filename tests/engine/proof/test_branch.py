"""An edit that is tried in a branch shows the rows that it would change, and leaves nothing of itself."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from strandline.core.errors import DefinitionError
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.compare import compare
from strandline.engine.proof.trial_lakes import tried
from strandline.engine.repair.rebuild import rebuild
from tests.support.morning import STRICT
from tests.support.rows import NOON

pytestmark = [pytest.mark.core, pytest.mark.slow]

WHOLE = timedelta(days=30)


@pytest.fixture
def site(spark: SparkSession) -> Site:
    """Return what a branch is computed with."""
    return Site(spark=spark, clock=lambda: NOON)


def files(lake: Lake) -> dict[str, int]:
    """Return all files of a lake but those of leases, with their sizes."""
    root = Path(str(lake.root))
    return {
        str(file.relative_to(root)): file.stat().st_size
        for file in sorted(root.rglob("*"))
        if file.is_file() and "_pins" not in file.parts
    }


def test_the_whole_of_an_edit_differs_in_a_branch_as_it_does_in_a_rebuild(
    morning: Lake, site: Site
) -> None:
    before, said = files(morning), list[str]()
    found = {
        each.table: each for each in tried((STRICT, gold.TABLE), morning, WHOLE, site, said.append)
    }
    assert files(morning) == before
    assert any(line.startswith("bronze.device_telemetry: 12 of its records") for line in said)

    expected = compare(STRICT, morning, rebuild(STRICT, morning, site), may_differ=True)
    assert [counts(each) for each in found[STRICT.id].differences] == [
        counts(each) for each in expected
    ]
    assert found[STRICT.id].differences[0].only_left == 2  # c and e
    windows = found[gold.TABLE.id].differences[0]
    assert (windows.only_left > 0, windows.apart) == (True, ())


def counts(found: object) -> tuple[object, ...]:
    names = ("table", "left_rows", "right_rows", "only_left", "only_right", "changed", "apart")
    return tuple(getattr(found, each) for each in names)


def test_only_the_newest_records_are_taken_along_and_compared(morning: Lake, site: Site) -> None:
    (found,) = tried((STRICT,), morning, timedelta(hours=1), site, lambda _: None)

    assert [each.equal for each in found.differences] == [True, True]
    assert found.differences[0].left_rows == 2  # h and i


def test_a_lake_without_rows_below_is_refused(lake: Lake, site: Site) -> None:
    with pytest.raises(DefinitionError, match="has no rows to try the edit with"):
        list(tried((STRICT,), lake, WHOLE, site, lambda _: None))
