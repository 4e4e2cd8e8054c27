"""A check of each publication, on the table whose rows leave: has its target what the table has?

It is answered on demand, and by the sensor that looks at tables (orchestration/strandline_dagster/vitals.py). A module
``publish`` that cannot be read costs its checks alone: it may import the client of a target, which is installed where rows are
sent and not here.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cache

from dagster import (
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    asset_check,
    get_dagster_logger,
)

from strandline.core.errors import LakeError
from strandline.core.table import Table
from strandline.engine.lake.files.damage import damage
from strandline.engine.publish.declared import Publish, declared
from strandline.engine.publish.progress import Progress, progress
from strandline.engine.runtime import clock
from strandline_dagster.checks import key, plain
from strandline_dagster.resources import LakeResource

PREFIX = "published_"
"""Before the name of a publication, so that no rule of the table has the same name."""


def checks() -> list[AssetChecksDefinition]:
    """Make the check of each publication."""
    return [_check(name, each) for name, each in _named().items()]


def answered(table: Table, lake: LakeResource) -> Iterator[AssetCheckResult]:
    """Answer the checks of the publications of a table."""
    for name, each in _named().items():
        if each.table == table:
            yield _answer(name, each, lake)


@cache
def _named() -> dict[str, Publish]:
    """Return what the project publishes, by the name of its check; code is loaded once for a process."""
    try:
        found = declared()
    except LakeError as error:
        get_dagster_logger().warning(f"what leaves has no checks: {error.message}")
        return {}
    taken = Counter(plain(each.name) for each in found)
    return {
        PREFIX + (plain(each.name) if taken[plain(each.name)] == 1 else _apart(each.name)): each
        for each in found
    }


def _apart(name: str) -> str:
    """Return a name as Dagster accepts it that differs from those of others with an underscore in place of a dash."""
    return plain(name.replace("-", "__"))


def _check(name: str, publish: Publish) -> AssetChecksDefinition:
    about = (
        f"{publish.shown} has what the table has, or lacks nothing that is older than {publish.within}, "
        "and has refused nothing."
    )

    @asset_check(asset=key(publish.table), name=name, description=about)
    def is_published(lake: LakeResource) -> AssetCheckResult:
        lake.lake().refuse_missing(publish.table)
        found = _answer(name, publish, lake)
        return AssetCheckResult(
            passed=found.passed,
            severity=found.severity,
            description=found.description,
            metadata=found.metadata,
        )

    return is_published


def _answer(name: str, publish: Publish, lake: LakeResource) -> AssetCheckResult:
    try:
        found = progress(publish, lake.lake(), clock.now())
    except Exception as error:
        if (torn := damage(error, publish.table)) is None:
            raise
        found = Progress(well=False, says=torn.message, grave=True)
    return AssetCheckResult(
        asset_key=key(publish.table),
        check_name=name,
        passed=found.well,
        severity=AssetCheckSeverity.ERROR if found.grave else AssetCheckSeverity.WARN,
        description=found.says,
        metadata={**found.figures},
    )
