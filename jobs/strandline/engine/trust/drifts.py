"""The drift of models in the daily report: of each judged day, with a warning where it is beyond a model's bound."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from strandline import catalog

from strandline.core.errors import DataError, DefinitionError
from strandline.core.model import Model
from strandline.core.table import Table
from strandline.engine.storage.lake import Lake
from strandline.engine.trust.day_verdicts import begins
from strandline_quality.report.findings import Drift


@dataclass(frozen=True, slots=True, kw_only=True)
class DayDrifts:
    """The drift of a table's model on a day.

    Args:
        known: Of each feature and of the score, by the version that scored the rows.
        unknown: Why it is not known; empty if it is.
    """

    known: Sequence[Drift] = ()
    unknown: str = ""


Days = Mapping[date, DayDrifts]

DAY = timedelta(days=1)


def by_day(tables: Sequence[Table], lake: Lake, days: Sequence[date]) -> dict[str, Days]:
    """Return the drift of each scored table on each day, by the event time of its rows."""
    found: dict[str, dict[date, DayDrifts]] = defaultdict(dict)
    for table in tables:
        if table.scored_by is not None:
            model = catalog.model(table.scored_by)
            for day in days:
                found[table.id][day] = _on(day, model, lake)
    return dict(found)


def warnings(days: Days) -> dict[date, list[str]]:
    """Return what the report says of the days on which something has moved too far."""
    return {
        day: [
            *(
                f"{each.of} of the model {each.model} has moved from its training: index {each.psi:.2f}"
                for each in drifts.known
                if each.warns
            ),
            *([drifts.unknown] if drifts.unknown else []),
        ]
        for day, drifts in days.items()
    }


def last(days: Days) -> tuple[Drift, ...]:
    """Return the drift of the last day."""
    return tuple(days[max(days)].known) if days else ()


def _on(day: date, model: Model, lake: Lake) -> DayDrifts:
    """Return the drift on a day; a version that is gone or damaged must not keep the report from being written."""
    # Not imported above: a project without models imports nothing of them.
    from strandline.engine.learning.drift import drift  # noqa: PLC0415  # as above

    try:
        return DayDrifts(known=drift(model, lake, begins(day), begins(day + DAY)))
    except (DataError, DefinitionError) as error:
        return DayDrifts(unknown=f"how far {model.name} has moved is not known: {error.message}")
