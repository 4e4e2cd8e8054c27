"""A model as an alert rule: it fires on an event whose score reaches the threshold of the version that holds at its time.

The score is computed by the SQL that scores the model's table (``steps`` in jobs/strandline/core/model.py), over the believed
event itself, so it runs in every mode of a feed, real time included, and a score in an alert is the score in the table.

The rule looks at a source of its own, the event's table with the score beside its columns, so it is a feed of its own:
a promotion changes the plan of this feed and no other. Its version does not name the versions that score. An event has
one alert of the rule, whichever plan has judged it, and the alert's event says which version did.
"""

from collections.abc import Sequence

from pyspark.sql.types import DecimalType, StringType, StructType

from strandline.alerting.declared import sources
from strandline.alerting.rules.alert_rule import AlertRule, Severity
from strandline.alerting.rules.condition import Missing, Not
from strandline.alerting.source import AlertSource
from strandline.core.model import SCORE, UNUSUAL, VERSION, Model, Term, steps
from strandline.project import package


def model_source(model: Model) -> AlertSource | None:
    """Return the events that a model can score as they come; None where it does not say that it can."""
    if not model.alerts or len(model.of.upstream) != 1:
        return None
    return next((each for each in sources() if each.table == model.of.upstream[0]), None)


def model_rule(model: Model, terms: Sequence[Term]) -> AlertRule | None:
    """Return the rule of a model; None where it raises no alerts, or nothing of it was ever promoted.

    Args:
        model: The model.
        terms: Which version of it holds from when on.
    """
    source = model_source(model)
    if source is None or not terms:
        return None
    fields = StructType([*source.fields]).add(VERSION, StringType()).add(SCORE, DecimalType(18, 6))
    names = [f"`{name}`" for name in fields.fieldNames() if name != SCORE]
    places = [f"`{name}`" for name in ("_topic", "_partition", "_offset")]
    # Without a score where it is usual, so that the condition is the cheapest of all.
    unusual = f"if({UNUSUAL}, {SCORE}, NULL) AS {SCORE}"
    made = [*map(tuple, steps(terms, model.of.event_at)), (*names, *places, unusual)]
    return AlertRule(
        id=f"model-{model.name}",
        title=(model.about or model.name).partition("\n")[0].rstrip("."),
        source=source.computed(model.name, fields, tuple(made)),
        when=Not(Missing(SCORE)),
        severity=Severity.MEDIUM,
        owner=model.owner,
        origin=f"{package().replace('.', '/')}/models/{model.name}.py",
    )
