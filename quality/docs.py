"""Great Expectations' own Data Docs of what looks at rows have found, for who is used to them; the last runs only.

The library never takes a page away and writes all of them anew each time, so a run of a year ago would cost something
today: what is older than the last runs is removed here first. Its pages load their style and scripts from the
network; the page of ``strandline report`` does not.

They are made from what was found, not by asking the rows again, and so hold no value of any row.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from quality.expectations import Counts, Expectation, Finding, Share, Within
from quality.gx import COUNTS, library
from quality.suite import as_suite, quiet

KEPT = 20
"""So many runs stay."""

STORE, SITE = Path("gx/uncommitted/validations"), Path("gx/uncommitted/data_docs/local_site")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was expected of a table, and what was found."""

    table: str
    expected: Sequence[Expectation]
    findings: Sequence[Finding]


def publish(folder: Path, asked: Sequence[Asked], at: datetime, kept: int = KEPT) -> Path:
    """Add a run to the pages, and return the one to begin with.

    Args:
        folder: Where the library may keep what it needs.
        asked: What was found, table by table.
        at: When; the name of the run.
        kept: How many runs stay, this one included.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context = quiet(library.get_context(mode="file", project_root_dir=str(folder)))
    run = library.RunIdentifier(run_name=at.strftime("%Y%m%dT%H%M%S.%f"))
    for each in map(_told, asked):
        _asked(context, each).run(
            batch_parameters={"dataframe": _frame(each)}, result_format="BASIC", run_id=run
        )
    _prune(folder, kept)
    context.build_data_docs()
    return folder / SITE / "index.html"


def _told(asked: Asked) -> Asked:
    """Put what only others could judge, or nobody, as what was found of it."""
    plain = {each.name: each for each in asked.expected}
    odd = [each for each in asked.findings if each.error or each.name not in plain]
    bare = (Within(name=each.name, high=0, severity=each.severity, about=each.says) for each in odd)
    expected = {**plain, **{each.name: each for each in bare}}
    found = (
        replace(each, value=0.0 if each.holds else 1.0) if each in odd else each
        for each in asked.findings
    )
    return replace(asked, expected=tuple(expected.values()), findings=tuple(found))


def _asked(context: Any, asked: Asked) -> Any:  # noqa: ANN401
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
    """Remove what was found in older runs, and every page about a run; those that stay are written anew."""
    runs = {file.parents[1] for file in (folder / STORE).rglob("*.json")}
    names = sorted({run.name for run in runs})
    for run in runs:
        if run.name not in names[-kept:]:
            shutil.rmtree(run)
    shutil.rmtree(folder / SITE / "validations", ignore_errors=True)
