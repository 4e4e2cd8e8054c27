"""The drift of models in the daily report: of each judged day, with a warning where it is beyond a model's bound."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from jobs import catalog
from jobs.core.table import Table
from jobs.engine.learning.drift import drift
from jobs.engine.storage.lake import Lake
from jobs.engine.trust.day_verdicts import begins
from quality.report.findings import Drift

Days = Mapping[date, Sequence[Drift]]

DAY = timedelta(days=1)


def by_day(tables: Sequence[Table], lake: Lake, days: Sequence[date]) -> dict[str, Days]:
    """Return the drift of each scored table on each day, by the event time of its rows."""
    found: dict[str, dict[date, Sequence[Drift]]] = defaultdict(dict)
    for table in tables:
        if table.scored_by is not None:
            model = catalog.model(table.scored_by)
            for day in days:
                found[table.id][day] = drift(model, lake, begins(day), begins(day + DAY))
    return dict(found)


def warnings(days: Days) -> dict[date, list[str]]:
    """Return what the report says of the days on which something has moved too far."""
    return {
        day: [
            f"{each.of} of the model {each.model} has moved from its training: index {each.psi:.2f}"
            for each in drifts
            if each.warns
        ]
        for day, drifts in days.items()
    }


def last(days: Days) -> tuple[Drift, ...]:
    """Return the drift of the last day."""
    return tuple(days[max(days)]) if days else ()
