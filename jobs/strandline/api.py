"""The engine's public interface; the name ``strandline`` leads here (infra/docs/package.md).

A promise of stability: what ``__all__`` names keeps its name, its arguments and its meaning within a major version. A name may
be added, and a function or a kind of table may get an argument with a default. tests/core/api.txt pins names and signatures. All
else of the engine may change with any version: no other module is imported by a project.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline.alerting.alert_rule import AlertSource
    from strandline.catalog import tables
    from strandline.core.changed_rows import as_of, changes_of, debezium, validity
    from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
    from strandline.core.fold import (
        Answer,
        Event,
        Fold,
        Folded,
        Kept,
        Memory,
        State,
        Waiting,
        arrival,
        latest_per_key,
        time_order,
    )
    from strandline.core.kind import Day, Emit, Fresh, Lateness, Layer
    from strandline.core.model import Clusters, Demand, Feature, Forest, Logistic, Model
    from strandline.core.parse import avro, parse_csv, parse_json, parse_raw, rescued
    from strandline.core.parse_registered import registered
    from strandline.core.routes import (
        Format,
        Reference,
        WriterSchema,
        all_but,
        field,
        header,
        key_prefix,
        schema_id,
    )
    from strandline.core.stateful import folded
    from strandline.core.static import Static
    from strandline.core.table import (
        Appended,
        Dimension,
        Ingested,
        Judged,
        Recomputed,
        Table,
        Upserted,
        Windowed,
    )
    from strandline.core.topic import CARRIED, PLACE, Counts, Record, Records, Skip, Topic, united
    from strandline.engine.ask.lake_reader import lake
    from strandline.engine.flow.publications import Change, KafkaTopic, PostgresTable, Publish
    from strandline.operate.alerts.examples import wrong_rules
    from strandline.operate.session import judge, trial_spark
    from strandline.sql_function import sql
    from strandline.testing.scenario import Scenario, Scenarios
    from strandline_quality.expectations import Within
    from strandline_quality.rules import (
        OnFail,
        Rule,
        Severity,
        between,
        matches,
        no_unknown_fields,
        not_null,
        one_of,
        required,
    )

_HOMES = {
    "strandline.alerting.alert_rule": ("AlertSource",),
    "strandline.catalog": ("tables",),
    "strandline.core.errors": (
        "DataError",
        "DefinitionError",
        "LakeError",
        "TransientError",
    ),
    "strandline.core.fold": (
        "Answer",
        "Event",
        "Fold",
        "Folded",
        "Kept",
        "Memory",
        "State",
        "Waiting",
        "arrival",
        "latest_per_key",
        "time_order",
    ),
    "strandline.core.kind": (
        "Day",
        "Emit",
        "Fresh",
        "Lateness",
        "Layer",
    ),
    "strandline.core.model": (
        "Clusters",
        "Demand",
        "Feature",
        "Forest",
        "Logistic",
        "Model",
    ),
    "strandline.core.parse": (
        "avro",
        "parse_csv",
        "parse_json",
        "parse_raw",
        "rescued",
    ),
    "strandline.core.changed_rows": (
        "as_of",
        "changes_of",
        "debezium",
        "validity",
    ),
    "strandline.core.parse_registered": ("registered",),
    "strandline.core.routes": (
        "Format",
        "Reference",
        "WriterSchema",
        "all_but",
        "field",
        "header",
        "key_prefix",
        "schema_id",
    ),
    "strandline.core.stateful": ("folded",),
    "strandline.core.topic": (
        "CARRIED",
        "PLACE",
        "Counts",
        "Record",
        "Records",
        "Skip",
        "Topic",
        "united",
    ),
    "strandline.core.static": ("Static",),
    "strandline.core.table": (
        "Appended",
        "Dimension",
        "Ingested",
        "Judged",
        "Recomputed",
        "Table",
        "Upserted",
        "Windowed",
    ),
    "strandline.engine.flow.publications": (
        "Change",
        "KafkaTopic",
        "PostgresTable",
        "Publish",
    ),
    "strandline.engine.ask.lake_reader": ("lake",),
    "strandline.operate.alerts.examples": ("wrong_rules",),
    "strandline.operate.session": (
        "judge",
        "trial_spark",
    ),
    "strandline.sql_function": ("sql",),
    "strandline.testing.scenario": (
        "Scenario",
        "Scenarios",
    ),
    "strandline_quality.expectations": ("Within",),
    "strandline_quality.rules": (
        "OnFail",
        "Rule",
        "Severity",
        "between",
        "matches",
        "no_unknown_fields",
        "not_null",
        "one_of",
        "required",
    ),
}
"""The module of each name, imported when the name is asked for: with all of them, 1.8 s instead of 0.1 would pass before a table is declared."""

__all__ = [
    "CARRIED",
    "PLACE",
    "AlertSource",
    "Answer",
    "Appended",
    "Change",
    "Clusters",
    "Counts",
    "DataError",
    "Day",
    "DefinitionError",
    "Demand",
    "Dimension",
    "Emit",
    "Event",
    "Feature",
    "Fold",
    "Folded",
    "Forest",
    "Format",
    "Fresh",
    "Ingested",
    "Judged",
    "KafkaTopic",
    "Kept",
    "LakeError",
    "Lateness",
    "Layer",
    "Logistic",
    "Memory",
    "Model",
    "OnFail",
    "PostgresTable",
    "Publish",
    "Recomputed",
    "Record",
    "Records",
    "Reference",
    "Rule",
    "Scenario",
    "Scenarios",
    "Severity",
    "Skip",
    "State",
    "Static",
    "Table",
    "Topic",
    "TransientError",
    "Upserted",
    "Waiting",
    "Windowed",
    "Within",
    "WriterSchema",
    "all_but",
    "arrival",
    "as_of",
    "avro",
    "between",
    "changes_of",
    "debezium",
    "field",
    "folded",
    "header",
    "judge",
    "key_prefix",
    "lake",
    "latest_per_key",
    "matches",
    "no_unknown_fields",
    "not_null",
    "one_of",
    "parse_csv",
    "parse_json",
    "parse_raw",
    "registered",
    "required",
    "rescued",
    "schema_id",
    "sql",
    "tables",
    "time_order",
    "trial_spark",
    "united",
    "validity",
    "wrong_rules",
]


def __getattr__(name: str) -> object:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        from strandline.project import missing  # noqa: PLC0415  # only where one is missing

        if found := missing(error):
            raise found from error
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
