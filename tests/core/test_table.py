"""A table of each kind is checked when it is declared, and each mistake has a sentence and a hint."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias, get_args

import pytest
from strandline import catalog

from fleet.gold import device_daily, device_signal_10m
from fleet.silver import device_inventory, devices
from strandline.core.errors import DefinitionError
from strandline.core.kind import Day, Emit, Layer
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
from strandline.core.topic import Topic
from strandline_quality.expectations import Within
from strandline_quality.rules import Rule, required

Fields: TypeAlias = dict[str, Any]

COMPUTED: Fields = {"transform": print, "key": ("id",), "event_at": "at"}
PINGS = Ingested(name="pings", reads=(Topic(name="pings"),))
JUDGED = Judged(name="pings", reads=(PINGS,), **COMPUTED)
ROWS: Fields = {"name": "rows", "reads": (JUDGED,), **COMPUTED}
WINDOW: Fields = {"window": "10 minutes", "window_from": "at"}
UPSERTED = Upserted(**ROWS, window_from="at")
UPDATED = Appended(
    **{**ROWS, "name": "updated"},
    dimension=Dimension(source=UPSERTED, columns=(), join=devices.as_of),
)
NO_FIGURE = Within(name="no_figure", high=1)
TODAY = Rule(name="today", holds="at < current_date()")


@pytest.mark.parametrize(
    ("declare", "message", "hint"),
    [
        (lambda: replace(PINGS, reads=()), "bronze.pings does not declare its reads", "reads=(…,)"),
        (
            lambda: replace(PINGS, reads=(JUDGED,)),
            "ingests silver.pings, which is no topic",
            "Topic(",
        ),
        (lambda: replace(JUDGED, key=()), "does not declare its key", "key=(…,)"),
        (
            lambda: replace(JUDGED, key="id"),
            "key=id, which is no tuple",
            "the comma makes the tuple",
        ),
        (
            lambda: replace(JUDGED, reads=(JUDGED,)),
            "judges the rows of silver.pings; a judged table reads one table of bronze",
            "a table that reads silver is Windowed, Appended, Upserted or Recomputed",
        ),
        (
            lambda: replace(JUDGED, reads=(PINGS, replace(PINGS, name="pongs"))),
            "judges the rows of bronze.pings and bronze.pongs",
            "which may read several topics",
        ),
        (
            lambda: replace(JUDGED, rules=(required("id"),)),
            "has tuple among its rules, where each is a Rule",
            "*required(…)",
        ),
        (
            lambda: replace(JUDGED, rules=(*required("id"), *required("id"))),
            "has two rules of the name missing:id",
            "a name of its own",
        ),
        (lambda: replace(JUDGED, rules=(TODAY,)), "has the rule today", "always the same"),
        (
            lambda: replace(JUDGED, expects=(NO_FIGURE,)),
            "an expectation of no_figure, which is not measured",
            "give it an aggregate",
        ),
        (
            lambda: Appended(**{**ROWS, "reads": (PINGS,)}),
            "gold.rows reads bronze.pings, whose rows are not judged",
            "declare a Judged table over it",
        ),
        (
            lambda: Appended(**{**ROWS, "reads": (Topic(name="pings"),)}),
            "gold.rows reads pings, whose rows are not judged",
            "declare a Judged table over it",
        ),
        (
            lambda: Appended(**ROWS, layer=Layer.BRONZE),
            "is computed from other tables, so it is not bronze",
            "layer=Layer.SILVER",
        ),
        (
            lambda: Appended(**ROWS, key_null_ok=("site",)),
            "declares that site may be NULL in its key, which has no such column",
            "name columns of its `key`: id",
        ),
        (
            lambda: Appended(**{**ROWS, "reads": (UPSERTED,)}),
            "reads gold.rows, whose rows are updated; a stream reads appended rows only",
            "declare gold.rows as Recomputed, or read what gold.rows reads",
        ),
        (
            lambda: Windowed(**{**ROWS, "reads": (UPDATED,)}, **WINDOW, closes_at="end"),
            "reads gold.updated, whose rows are updated",
            "as Recomputed",
        ),
        (
            lambda: Windowed(**ROWS, **{**WINDOW, "window": "1 month"}, closes_at="end"),
            "has windows of '1 month', which is no length of time",
            "such as '10 minutes'",
        ),
        (
            lambda: Windowed(**ROWS, **{**WINDOW, "window": timedelta(days=1)}, closes_at="end"),
            "has windows of datetime.timedelta(days=1), which is no length of time",
            'Day("Europe/Helsinki")',
        ),
        (
            lambda: Upserted(**ROWS, **{**WINDOW, "window": Day("Europe/Helsinki")}),
            "has windows, but does not declare where one ends",
            "closes_at=…",
        ),
        (
            lambda: Windowed(**ROWS, **WINDOW, closes_at="end", reach="far"),
            "declares reach='far', which is no length of time",
            "reach='4 hours'",
        ),
        (
            lambda: Windowed(
                **{**ROWS, "reads": (JUDGED, JUDGED)}, **WINDOW, closes_at="end", source_count="n"
            ),
            "counts source rows, but reads silver.pings and silver.pings",
            "leave `source_count` out",
        ),
        (
            lambda: replace(PINGS, keeps="1 year"),
            "bronze.pings declares keeps='1 year', which is no length of time of an hour or more",
            "such as keeps='400 days'",
        ),
        (
            lambda: replace(JUDGED, keeps_held="10 minutes"),
            "declares keeps_held='10 minutes'",
            "leave it out to keep rows for ever",
        ),
        (
            lambda: Upserted(**ROWS, **WINDOW),
            "has windows, but does not declare where one ends",
            "add closes_at=…",
        ),
        (
            lambda: Recomputed(**ROWS, **{**WINDOW, "window": "daily"}),
            "'daily'",
            "as Spark reads it",
        ),
    ],
)
def test_a_mistake_is_refused_when_the_table_is_declared(
    declare: Callable[[], Table], message: str, hint: str
) -> None:
    """Before a stream runs for a night and writes rows that cannot be repaired."""
    with pytest.raises(DefinitionError) as caught:
        declare()

    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "fields", "missing"),
    [
        (Judged, {"name": "x", "reads": (PINGS,)}, "'transform', 'key', and 'event_at'"),
        (Windowed, {**ROWS, **WINDOW}, "'closes_at'"),
        (Upserted, ROWS, "'window_from'"),
        (Recomputed, ROWS, "'window' and 'window_from'"),
    ],
)
def test_what_a_kind_needs_has_no_default(kind: type, fields: Fields, missing: str) -> None:
    """So the type checker and the editor name it before anything runs."""
    with pytest.raises(TypeError, match=missing):
        kind(**fields)


def test_a_table_of_updated_rows_is_recomputed() -> None:
    """Upserted rows, recomputed windows and rows with a dimension are replaced; only a recomputed table follows."""
    for source in (UPSERTED, UPDATED, device_daily.TABLE):
        assert source.replaces_rows
        table = Recomputed(**{**ROWS, "name": "sums", "reads": (source,)}, **WINDOW)
        assert table.change_sources == (source,)


def test_the_time_of_a_window_is_its_start_unless_another_column_is_declared() -> None:
    """One line less in each table of windows."""
    fields = {name: value for name, value in ROWS.items() if name != "event_at"}
    table = Windowed(**fields, **{**WINDOW, "window_from": "begins"}, closes_at="ends")

    assert table.event_at == "begins"
    assert replace(table, event_at="at").event_at == "at"
    assert table.window_length == timedelta(minutes=10)


def test_a_table_follows_its_dimension_and_masks_what_its_sources_mask() -> None:
    """A value does not become public by being copied."""
    table = device_signal_10m.TABLE
    secret = replace(JUDGED, sensitive=("id",))

    assert table.needs == (*table.upstream, devices.TABLE)
    assert table.change_sources == (devices.TABLE,)
    assert replace(UPSERTED, reads=(secret,)).shown(["id", "n", "_x"]) == ("n",)
    assert devices.TABLE.id == "silver.devices"
    assert devices.TABLE.upstream == (device_inventory.TABLE,)


def test_the_project_has_a_table_of_each_kind() -> None:
    """What is true of a kind can be tested on one of them, in each way in which an upserted table emits."""
    tables = catalog.tables()

    assert {type(table) for table in tables} == {*get_args(Table)}
    assert {table.emits for table in tables if isinstance(table, Upserted)} == {*Emit}


def test_windows_may_be_the_days_of_a_zone() -> None:
    """Of a table without them the days are those of UTC, and no window is as long as another."""
    by_day = Windowed(**ROWS, **{**WINDOW, "window": Day("Europe/Helsinki")}, closes_at="end")
    other = Windowed(**ROWS, **WINDOW, closes_at="end")

    assert (by_day.local_day, by_day.calendar) == (Day("Europe/Helsinki"), Day("Europe/Helsinki"))
    assert (other.local_day, other.calendar) == (None, Day("UTC"))
    assert by_day.window_length == timedelta(hours=25)
    assert {by_day: 1}[by_day] == 1
