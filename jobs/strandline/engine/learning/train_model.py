"""Train a version of a model on a range of its table's history, with the certificate of what it was made of.

The last part of the range is held out: the version is evaluated on time that it has not seen, by the very SQL that will
score rows. Held out is time and not rows drawn by chance, because a model is used on the days after those it learnt.

What is learnt is turned into a form of decimals (jobs/strandline/core/scoring.py) right away, and everything after that, the
threshold included, is computed from the form's scores and not from MLlib's.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from strandline.core.errors import DataError, DefinitionError
from strandline.core.model import FEATURES, SCORE, SCORED, UNUSUAL, Model
from strandline.core.scored_rows import Trained, steps
from strandline.core.scoring import Form, as_words
from strandline.engine.learning.estimators import even_odds, learnt
from strandline.engine.learning.model_sql import judging_rows, refuse_unreadable
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime.meter import model_version
from strandline.engine.storage import model_shelf
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.read_version import rows_at

TENTHS = [f"0.{n}" for n in range(1, 10)]


def distributions(rows: DataFrame, names: Sequence[str], score: str) -> dict[str, Any]:
    """Return bounds and shares of each feature and of the score.

    How the features and the score of a version were distributed where it learnt: the bounds of ten parts, and their shares.

    A feature with few values has fewer parts: equal bounds are one.

    Args:
        rows: The rows that were learnt from, with their features and scores.
        names: The names of the features, in their order.
        score: The column with the score.
    """
    columns = {name: f"get({FEATURES}, {at})" for at, name in enumerate(names)} | {score: score}
    tenths = [
        f"percentile_disc({tenth}) WITHIN GROUP (ORDER BY {sql})"
        for sql in columns.values()
        for tenth in TENTHS
    ]
    (row,) = rows.selectExpr(*tenths).collect()
    found = {
        name: sorted(set(row[at * len(TENTHS) : (at + 1) * len(TENTHS)]))
        for at, name in enumerate(columns)
    }
    counts = [
        f"count_if({columns[name]} <= CAST('{bound}' AS DECIMAL(18,6)))"
        for name, bounds in found.items()
        for bound in bounds
    ]
    total, *up_to = rows.selectExpr("count(*)", *counts).collect()[0]
    made: dict[str, Any] = {}
    for name, bounds in found.items():
        reached = [up_to.pop(0) for _ in bounds]
        parts = [
            after - before for before, after in zip([0, *reached], [*reached, total], strict=True)
        ]
        made[name] = {
            "bounds": [format(bound, "f") for bound in bounds],
            "shares": [round(part / total, 6) for part in parts],
        }
    return made


LABEL = "_label"
LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

DIGITS = 12
"""Hexadecimal digits of a version's name."""


def train(
    spark: SparkSession, model: Model, lake: Lake, span: Span, at: datetime
) -> dict[str, Any]:
    """Train a version, keep it, and return what is known of it; what is promoted does not change.

    Args:
        spark: The session.
        model: What is trained.
        lake: Where its table is.
        span: The range of event time.
        at: The time of the training, for the certificate.

    Raises:
        DataError: All rows have the label, or none.
        DefinitionError: The range has no rows, or the model's SQL is wrong.
    """
    lake.refuse_missing(model.of)
    table_version = latest_version(lake.table(model.of))
    split = span.since + (span.until - span.since) * (1 - model.held_out)
    rows = rows_at(spark, lake.table(model.of), table_version)
    refuse_unreadable(rows, model)
    first = rows.where(Span(since=span.since, until=split).holds(model.of.event_at))
    with judging_rows(model):
        form, threshold, known = _learnt(first, model, span)
    words: dict[str, Any] = {
        "model": model.name,
        "features": [{"name": each.name, "sql": each.exact} for each in model.features],
        "form": as_words(form),
        "threshold": threshold,
        "certificate": {
            "table": model.of.id,
            "since": span.since.isoformat(),
            "held_out_from": split.isoformat(),
            "until": span.until.isoformat(),
            "versions": {model.of.id: table_version},
            "code": model_version(model),
            "label": model.label,
            "estimator": {"kind": type(model.estimator).__name__, **asdict(model.estimator)},
            "distributions": known,
        },
    }
    version = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:DIGITS]
    words["version"] = version
    held_out = Span(since=split, until=span.until)
    with judging_rows(model):
        words["certificate"]["metrics"] = metrics(
            rows.where(held_out.holds(model.of.event_at)), model, _trained(model, form, threshold)
        )
    words["certificate"]["at"] = at.isoformat(timespec="seconds")
    model_shelf.keep(lake, model.name, version, words)
    return model_shelf.version(lake, model.name, version)


def everything(spark: SparkSession, model: Model, lake: Lake) -> Span:
    """Return the range of all rows of a model's table.

    Raises:
        DefinitionError: It has none.
    """
    lake.refuse_missing(model.of)
    at = f"unix_micros({model.of.event_at})"
    rows = rows_at(spark, lake.table(model.of), latest_version(lake.table(model.of)))
    ((first, last),) = rows.selectExpr(f"min({at})", f"max({at})").collect()
    if first is None:
        raise DefinitionError(
            f"{model.of.id} has no row to learn from",
            hint=f"fill it first: `strandline run {model.of.id}`.",
            model=model.name,
        )
    return Span.of_micros(first, last)


def evaluate(
    spark: SparkSession, model: Model, lake: Lake, version: str, span: Span
) -> dict[str, float]:
    """Return the metrics of a version on a range of the table's rows as they are now.

    Raises:
        DefinitionError: The range has no rows, or the version looks at a column that the table has no more.
    """
    lake.refuse_missing(model.of)
    rows = rows_at(spark, lake.table(model.of), latest_version(lake.table(model.of)))
    words = model_shelf.version(lake, model.name, version)
    trained = model_shelf.trained(words)
    with judging_rows(model):
        figures = metrics(rows.where(span.holds(model.of.event_at)), model, trained)
    if not figures["rows"]:
        raise _no_rows(model, span)
    return figures


def labelled(rows: DataFrame, model: Model) -> DataFrame:
    """Add the label, false where it cannot be said, and take away the columns that an older version has filled."""
    label = f"coalesce({model.label or 'false'}, false)"
    plain = [f"`{each}`" for each in rows.columns if each not in SCORED]
    return rows.selectExpr(*plain, f"{label} AS {LABEL}")


def scored(rows: DataFrame, model: Model, trained: Trained) -> DataFrame:
    """Add the columns of a version to rows that have none."""
    for step in steps([(LONG_AGO, trained)], model.of.event_at):
        rows = rows.selectExpr("*", *step)
    return rows


def metrics(rows: DataFrame, model: Model, trained: Trained) -> dict[str, float]:
    """Return how a version does on rows: counts, and of a model with a label how well the threshold finds it."""
    found = scored(labelled(rows, model), model, trained)
    (row,) = found.selectExpr(
        "count(*) AS rows",
        f"count_if({UNUSUAL}) AS unusual",
        f"count_if({LABEL}) AS positives",
        f"count_if({UNUSUAL} AND {LABEL}) AS hits",
    ).collect()
    rows_, unusual, positives, hits = (int(value) for value in row)
    figures: dict[str, float] = {"rows": rows_, "flagged": _share(unusual, rows_)}
    if model.label is None:
        return figures
    precision, recall = _share(hits, unusual), _share(hits, positives)
    both = _share(2 * precision * recall, precision + recall)
    return {
        **figures,
        "positives": positives,
        "precision": precision,
        "recall": recall,
        "f1": both,
    }


def _learnt(first: DataFrame, model: Model, span: Span) -> tuple[Form, str, dict[str, Any]]:
    """Return what was learnt from the first part of the range: the form, the threshold, and the distributions."""
    seen = labelled(first, model).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        _refuse_unlearnable(seen, model, span)
        form = learnt(seen, [each.exact for each in model.features], model.estimator, LABEL)
        rows = scored(seen, model, _trained(model, form, "0"))
        known = distributions(rows, [each.name for each in model.features], SCORE)
        return form, _threshold(rows, model), known
    finally:
        seen.unpersist()


def _threshold(found: DataFrame, model: Model) -> str:
    """Return the score from which on a row is unusual, as text."""
    if model.flags is None:
        return even_odds(model.estimator)
    at = f"percentile_disc({1 - model.flags}) WITHIN GROUP (ORDER BY {SCORE})"
    (row,) = found.selectExpr(f"CAST({at} AS DECIMAL(18,6)) AS at").collect()
    return format(row["at"], "f")


def _trained(model: Model, form: Form, threshold: str) -> Trained:
    features = tuple(each.exact for each in model.features)
    return Trained(version="trained", features=features, form=form, threshold=threshold)


def _refuse_unlearnable(seen: DataFrame, model: Model, span: Span) -> None:
    counts = ("count(*) AS rows", f"count_if({LABEL}) AS positives")
    # The largest value of each, so that SQL that fails on a row fails here and not within MLlib.
    (row,) = seen.selectExpr(*counts, *(f"max({each.exact})" for each in model.features)).collect()
    if not row["rows"]:
        raise _no_rows(model, span)
    if model.label is not None and row["positives"] in {0, row["rows"]}:
        raise DataError(
            f"of {row['rows']:,} rows {_range(span)} {row['positives']:,} have the label of {model.name}, so there is nothing to learn",
            hint="name a longer range with --since and --until.",
            model=model.name,
        )


def _no_rows(model: Model, span: Span) -> DefinitionError:
    return DefinitionError(
        f"{model.of.id} has no row {_range(span)}",
        hint="name another range with --since and --until; `strandline query` shows what there is.",
        model=model.name,
    )


def _range(span: Span) -> str:
    return f"between {span.since.isoformat()} and {span.until.isoformat()}"


def _share(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0
