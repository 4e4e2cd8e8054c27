"""What is wrong with a model's SQL, which only Spark knows: it has the table's columns and their types.

A feature is a number of one row, and of nothing beside it: a window or a subquery would train, and then end the stream
of the table, or give another score in a batch than in a stream.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType

from strandline.core.errors import DefinitionError
from strandline.core.model import SCORED, Model
from strandline.engine.runtime.outage import first_line

OF_A_ROW = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
"""What a value of some row makes of SQL that Spark has understood."""

LABEL = "label"


def refuse_unreadable(rows: DataFrame, model: Model) -> None:
    """Refuse a model whose SQL Spark does not understand, or that looks beyond a row.

    Args:
        rows: The rows of its table; none is read.
        model: The model.

    Raises:
        DefinitionError: An expression is wrong.
    """
    plain = rows.drop(*SCORED)
    for feature in model.features:
        # As it is written first: Spark then names the mistake, and not what was put around it.
        for sql in (feature.sql, feature.exact):
            with _explained(plain, model, feature.name, feature.sql):
                made = plain.selectExpr("*", f"({sql}) AS _value")
            if _nodes(made) > _nodes(plain) + 1:
                raise DefinitionError(
                    f"the model {model.name} computes {feature.name} by {feature.sql!r}, which looks at other rows",
                    hint=f"compute it in the table's function, as a column of {model.of.id}.",
                    model=model.name,
                )
    if model.label is not None:
        with _explained(plain, model, LABEL, model.label):
            kind = plain.selectExpr(f"({model.label}) AS _value").schema["_value"].dataType
        if not isinstance(kind, BooleanType):
            raise DefinitionError(
                f"the model {model.name} has the label {model.label!r}, which is {kind.simpleString()} and not boolean",
                hint="write a condition, such as `kind = 'theft'`.",
                model=model.name,
            )


@contextmanager
def judging_rows(model: Model) -> Iterator[None]:
    """Name the model where its SQL fails on a row, or where its table has lost a column that a version looks at.

    Raises:
        DefinitionError: It fails.
    """
    try:
        yield
    except AnalysisException as error:
        raise DefinitionError(
            f"a version of {model.name} cannot score the rows that {model.of.id} has now: {first_line(error)}",
            hint=f"train another: `strandline models train {model.name}`.",
            model=model.name,
        ) from error
    except OF_A_ROW as error:
        raise DefinitionError(
            f"a feature or the label of {model.name} fails on a row of {model.of.id}: {first_line(error)}",
            hint="compare values of one type: a text with a text, or try_cast(… AS …) with a number.",
            model=model.name,
        ) from error


@contextmanager
def _explained(rows: DataFrame, model: Model, name: str, sql: str) -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        raise DefinitionError(
            f"the model {model.name} computes {name} by {sql!r}, which Spark refuses: {first_line(error)}",
            hint=f"it may look at {', '.join(rows.columns)}; the functions are Spark's.",
            model=model.name,
        ) from error


def _nodes(rows: DataFrame) -> int:
    """Return the number of the nodes of a plan, those of subqueries included."""
    return len(str(rows._jdf.queryExecution().analyzed()).splitlines())  # noqa: SLF001  # there is no public way
