"""Great Expectations' own Data Docs of the last audits, for readers who are used to them.

The library never deletes a page and writes all of them again each time, so a run of a year ago would cost time
today: runs older than the last ones are removed here first. Its pages load their style and scripts from the
network; the page of ``strandline report`` does not.

They are made from findings, not by evaluating the rows again, so they hold no value of any row.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from strandline_quality.expectations import Counts, Expectation, Finding, Share, Within
from strandline_quality.gx import COUNTS, library
from strandline_quality.suite import as_suite, quiet

KEPT = 20
"""The number of runs that are kept."""

STORE, SITE = Path("gx/uncommitted/validations"), Path("gx/uncommitted/data_docs/local_site")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The expectations of a table, and the findings."""

    table: str
    expected: Sequence[Expectation]
    findings: Sequence[Finding]


def publish(folder: Path, asked: Sequence[Asked], at: datetime, kept: int = KEPT) -> Path:
    """Add a run to the pages, and return the one to begin with.

    Args:
        folder: The folder of the library's files.
        asked: Expectations and findings, table by table.
        at: The time of the run, which becomes its name.
        kept: The number of runs that are kept, this one included.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context = quiet(library.get_context(mode="file", project_root_dir=str(folder)))
    run = library.RunIdentifier(run_name=at.strftime("%Y%m%dT%H%M%S.%f"))
    for each in map(_with_values, asked):
        _asked(context, each).run(
            batch_parameters={"dataframe": _frame(each)}, result_format="BASIC", run_id=run
        )
    _prune(folder, kept)
    context.build_data_docs()
    return folder / SITE / "index.html"


def _with_values(asked: Asked) -> Asked:
    """Turn findings with an error, or without an expectation, into figures that the library can judge: 0 holds, 1 fails."""
    plain = {each.name: each for each in asked.expected}
    odd = [each for each in asked.findings if each.error or each.name not in plain]
    bare = (Within(name=each.name, high=0, severity=each.severity, about=each.says) for each in odd)
    expected = {**plain, **{each.name: each for each in bare}}
    findings = (
        replace(each, value=0.0 if each.holds else 1.0) if each in odd else each
        for each in asked.findings
    )
    return replace(asked, expected=tuple(expected.values()), findings=tuple(findings))


def _asked(context: Any, asked: Asked) -> Any:  # noqa: ANN401  # Great Expectations has no types
    source = context.data_sources.add_or_update_pandas(asked.table)
    batch = source.add_dataframe_asset(name="rows").add_batch_definition_whole_dataframe("rows")
    suite = context.suites.add_or_update(as_suite(asked.table, asked.expected))
    named = library.ValidationDefinition(name=asked.table, data=batch, suite=suite)
    return context.validation_definitions.add_or_update(named)


def _frame(asked: Asked) -> pd.DataFrame:
    rules = {each.name for each in asked.expected if isinstance(each, Share)}
    frame = pd.DataFrame({"counters": [0]})
    frame.attrs[COUNTS] = Counts(
        rows=max((each.rows for each in asked.findings), default=0),
        broke={each.name: each.failed for each in asked.findings if each.name in rules},
        figures={each.name: each.value for each in asked.findings if each.value is not None},
    )
    return frame


def _prune(folder: Path, kept: int) -> None:
    """Remove the results of older runs, and the page of every run; the library writes those of kept runs again."""
    runs = {file.parents[1] for file in (folder / STORE).rglob("*.json")}
    names = sorted({run.name for run in runs})
    for run in runs:
        if run.name not in names[-kept:]:
            shutil.rmtree(run)
    shutil.rmtree(folder / SITE / "validations", ignore_errors=True)
