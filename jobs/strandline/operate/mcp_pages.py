"""What an agent may read beside the tools: the pages of the documentation and for people on call, what a table declares, and prompts.

A page is found by its name among those that are there, so no text of a client becomes a path.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from strandline.core.table import Ingested, Table
from strandline.engine.proof.daily_report import rulebook
from strandline_infra.installation import page

DOCS, RUNBOOKS = "infra/docs", "infra/runbooks"


def declaration(table: Table) -> dict[str, Any]:
    """Return what a table declares, as JSON."""
    law = table.lateness
    found = {
        "about": table.summary,
        "kind": type(table).__name__,
        "reads": [str(each) for each in table.reads],
        "key": list(table.row_key),
        "event_time": table.event_at,
        "owner": table.owner,
        "sensitive": sorted(table.secret),
        "rules": [] if isinstance(table, Ingested) else list(rulebook(table)),
        "admits": {
            "late": str(law.late),
            "early": str(law.early),
            "disorder": str(law.disorder),
        },
        "window": str(table.window_length) if table.window_length else None,
        "fresh_within": table.promise.within if table.promise else None,
        "kept_for": table.keeps,
    }
    return {name: value for name, value in found.items() if value not in (None, [], "")}


def declared(table: Table) -> str:
    """Return the same as a page."""
    return json.dumps({"table": table.id, **declaration(table)}, indent=2, default=str)


def docs() -> dict[str, Path]:
    """Return the pages of the documentation by their names."""
    return _pages(DOCS)


def runbooks() -> dict[str, Path]:
    """Return the pages for people on call by their names."""
    return _pages(RUNBOOKS)


def _pages(folder: str) -> dict[str, Path]:
    return {file.stem: file for file in sorted(page(folder).glob("*.md"))}


def head(file: Path) -> str:
    """Return the first line of a page, which is its title."""
    with file.open(encoding="utf-8") as lines:
        return next(lines, "").lstrip("# ").strip()


# What a person may begin with: prompts that say which tools to call, and what to say of the answer.


TRUST = """Is this right: {question}?

1. Call `report` for {day}: it says whether the numbers of that day can be trusted, and why not.
2. Find the table with `tables` and `schema`, then ask `query` for the number.
3. Read `believed`, `because` and `as_of` of that answer. Where `rows_behind` is above 0 the number is not complete yet.
4. Call `ledger` for the table and `quarantine` for the silver tables below it: records that are held are not in the number.

Answer with the number, whether it may be believed, as of which version, and how a person checks it. Where it may not be believed, say so first."""

MISSING = """Why is the event {event} missing{place}?

Call `why` with it. Say the verdict, the sentence, and what follows: a late or held record is in `quarantine`; one that is not read yet
needs `radar` and `history`; where the verdict is unknown, say what was not searched. `runbook` has the page for what a person does next."""

BEHIND = """How far is the lake behind, and does anything need a person?

Call `radar` for what is not read yet, `ledger` for rows that wait or do not balance, `report` for today, `preflight` before anything is
restarted. Name the tables that are behind, by how much, and the runbook's page for each."""


def is_it_right(
    question: Annotated[
        str, Field(description="such as: yesterday's revenue")
    ] = "yesterday's revenue",
    day: Annotated[str, Field(description="2026-11-01, today or yesterday")] = "yesterday",
) -> str:
    """Ask for a number and whether it may be believed, such as: is yesterday's revenue right?"""
    return TRUST.format(question=question, day=day)


def why_is_it_missing(
    event: Annotated[str, Field(description="TOPIC/PARTITION/OFFSET, or a key")],
    table: Annotated[str, Field(description="the table in which it is missing")] = "",
) -> str:
    """Ask why one event is not where it should be."""
    return MISSING.format(event=event, place=f" from {table}" if table else "")


def what_is_behind() -> str:
    """Ask how far the lake is behind, and what needs a person."""
    return BEHIND


PROMPTS = (is_it_right, why_is_it_missing, what_is_behind)
