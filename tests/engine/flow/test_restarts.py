"""The pre-flight's verdicts against Spark itself: each edit is judged, and then really restarted with more rows."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.edits import Edit
from tests.support.edits_around import surroundings
from tests.support.edits_of_processors import processors
from tests.support.edits_of_rows import duplicates, joins, rows_alone
from tests.support.edits_of_schemas import schemas
from tests.support.edits_of_silver import judged_tables
from tests.support.edits_of_windows import aggregates
from tests.support.proofs import Times
from tests.support.restarts import Outcome, Restarts, Trial

pytestmark = pytest.mark.whole

REPORT = Path(__file__).parents[2] / "benchmarks" / "reports" / "restarts.md"
HEAD = """# Restarts after an edit

What `make prove` saw last: each edit judged by `strandline preflight`, then really restarted in Spark with more rows.
A right restart adds the rows that the new code adds when it has run from the beginning ([restarts.py](../../support/restarts.py)).
The last column is the restart after the migration that the verdict offers.

| edit | verdict | restart in Spark | after the migration |
|---|---|---|---|
"""

EDITS = (
    *aggregates(),
    *rows_alone(),
    *duplicates(),
    *joins(),
    *processors(),
    *judged_tables(),
    *schemas(),
    *surroundings(),
)
SHORT = (
    "keys of one type swapped",
    "a filter after the state",
    "columns: int to long",
    "a source: int to long, passed on",
)
"""One that Spark takes and gets wrong, one that is safe, and two that a migration makes safe."""


@pytest.mark.slow
@pytest.mark.prove
def test_no_verdict_disagrees_with_spark(spark: SparkSession, tmp_path: Path, times: Times) -> None:
    """Wrong rows without an error are what the verdicts are for; there must be some, and none may be called safe."""
    is_long = times(len(SHORT), len(EDITS)) >= len(EDITS)
    chosen = EDITS if is_long else [edit for edit in EDITS if edit.name in SHORT]
    restarts = Restarts(spark, tmp_path)
    trials = [_tried(restarts, edit) for edit in chosen]

    if is_long:
        REPORT.write_text(HEAD + "\n".join(map(_row, trials)) + "\n")
    assert [trial for trial in trials if not trial.agrees] == []
    assert any(trial.outcome is Outcome.WRONG for trial in trials)
    assert any(trial.migrated is Outcome.RIGHT for trial in trials)
    assert _names(trials) == {edit.name for edit in chosen}


def _tried(restarts: Restarts, edit: Edit) -> Trial:
    trial = restarts.trial(edit)
    print(_row(trial))  # noqa: T201  # the matrix is what a reader of a failure wants
    return trial


def _names(trials: Sequence[Trial]) -> set[str]:
    return {trial.edit for trial in trials}


def _row(trial: Trial) -> str:
    after = trial.migrated.value if trial.migrated else ""
    return f"| {trial.edit} | {trial.verdict.answer.value} | {trial.outcome.value} | {after} |"
