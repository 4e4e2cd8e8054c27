"""The engine's public interface; the name ``strandline`` leads here (infra/docs/package.md).

A promise of stability: what ``__all__`` names keeps its name, its arguments and its meaning within a major version. A name may
be added, and a function or a kind of table may get an argument with a default. tests/core/api.txt pins names and signatures. All
else of the engine may change with any version: no other module is imported by a project.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.alerting.source import AlertSource
    from jobs.catalog import tables
    from jobs.core.errors import DataError, DefinitionError, LakeError, TransientError
    from jobs.core.fold import (
        Answer,
        Event,
        Fold,
        Folded,
        State,
        arrival,
        latest_per_key,
        time_order,
    )
    from jobs.core.kind import Emit, Layer
    from jobs.core.lateness import Lateness
    from jobs.core.model import Clusters, Demand, Feature, Forest, Logistic, Model
    from jobs.core.parse import parse_json
    from jobs.core.parse_avro import avro
    from jobs.core.parse_csv import parse_csv, parse_raw
    from jobs.core.parse_debezium import changes_of, debezium
    from jobs.core.parse_registered import registered
    from jobs.core.received import CARRIED
    from jobs.core.record import Record
    from jobs.core.rescue import rescued
    from jobs.core.stateful import folded
    from jobs.core.table import (
        Appended,
        Dimension,
        Ingested,
        Judged,
        Recomputed,
        Table,
        Upserted,
        Windowed,
    )
    from jobs.core.topic import Topic
    from jobs.core.unite import united
    from jobs.core.validity import validity
    from jobs.core.waiting import Kept, Memory, Waiting
    from jobs.core.writer_schema import Format, Reference, WriterSchema
    from jobs.engine.kafka.records import Counts, Records
    from jobs.engine.runtime.trial import judge, trial_spark
    from jobs.engine.trace.lake_reader import lake
    from jobs.operate.alerts.examples import wrong_rules
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
    "jobs.alerting.source": ("AlertSource",),
    "jobs.catalog": ("tables",),
    "jobs.core.errors": ("DataError", "DefinitionError", "LakeError", "TransientError"),
    "jobs.core.fold": (
        "Answer",
        "Event",
        "Fold",
        "Folded",
        "State",
        "arrival",
        "latest_per_key",
        "time_order",
    ),
    "jobs.core.kind": ("Emit", "Layer"),
    "jobs.core.lateness": ("Lateness",),
    "jobs.core.model": ("Clusters", "Demand", "Feature", "Forest", "Logistic", "Model"),
    "jobs.core.parse": ("parse_json",),
    "jobs.core.parse_avro": ("avro",),
    "jobs.core.parse_csv": ("parse_csv", "parse_raw"),
    "jobs.core.parse_debezium": ("changes_of", "debezium"),
    "jobs.core.parse_registered": ("registered",),
    "jobs.core.received": ("CARRIED",),
    "jobs.core.record": ("Record",),
    "jobs.core.rescue": ("rescued",),
    "jobs.core.stateful": ("folded",),
    "jobs.core.table": (
        "Appended",
        "Dimension",
        "Ingested",
        "Judged",
        "Recomputed",
        "Table",
        "Upserted",
        "Windowed",
    ),
    "jobs.core.topic": ("Topic",),
    "jobs.core.unite": ("united",),
    "jobs.core.validity": ("validity",),
    "jobs.core.waiting": ("Kept", "Memory", "Waiting"),
    "jobs.core.writer_schema": ("Format", "Reference", "WriterSchema"),
    "jobs.engine.kafka.records": ("Counts", "Records"),
    "jobs.engine.runtime.trial": ("judge", "trial_spark"),
    "jobs.engine.trace.lake_reader": ("lake",),
    "jobs.operate.alerts.examples": ("wrong_rules",),
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
    "AlertSource",
    "Answer",
    "Appended",
    "Clusters",
    "Counts",
    "DataError",
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
    "Ingested",
    "Judged",
    "Kept",
    "LakeError",
    "Lateness",
    "Layer",
    "Logistic",
    "Memory",
    "Model",
    "OnFail",
    "Recomputed",
    "Record",
    "Records",
    "Reference",
    "Rule",
    "Severity",
    "State",
    "Table",
    "Topic",
    "TransientError",
    "Upserted",
    "Waiting",
    "Windowed",
    "Within",
    "WriterSchema",
    "arrival",
    "avro",
    "between",
    "changes_of",
    "debezium",
    "folded",
    "judge",
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
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
