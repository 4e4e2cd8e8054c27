"""A file of SQL is a table, and each mistake in one has its file, its line, a sentence and a hint.

The tables of these tests live in a package that is made for them.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from importlib import invalidate_caches
from pathlib import Path
from textwrap import dedent
from typing import TypeAlias, get_args

import pytest
from pyspark.sql import DataFrame, SparkSession
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Day, Emit
from strandline.core.table import Ingested, Judged, Recomputed, Table, Windowed
from strandline.core.topic import RECEIVED, Skip
from strandline.engine.runtime import code_files
from strandline.sql_file import FIELDS, IN_PYTHON, said

Put: TypeAlias = Callable[[str, str], str]

PACKAGE = "scratch_sql"
BRONZE = "from strandline import Ingested, Topic\nTABLE = Ingested(name='pings', reads=(Topic(name='pings'),))\n"
PINGS = """
    -- Pings of devices.
    -- kind: Judged
    -- reads: bronze.pings
    -- fields: ping_id string, device_id string, ms decimal(9,2), at timestamp
    -- key: ping_id
    -- event_at: at
    SELECT ping_id, device_id, ms, at FROM {pings}
"""
GOLD = """
    -- How many pings each device has sent in ten minutes.
    --
    -- Grain: one row a device and window.
    --
    -- kind: Windowed
    -- reads: silver.pings
    -- key: device_id, window_from
    -- window: 10 minutes
    -- window_from: window_from
    -- closes_at: window_until
    SELECT device_id, window.start AS window_from, window.end AS window_until, count(*) AS pings
    FROM {pings}
    GROUP BY device_id, window(at, '10 minutes')
"""


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Put]:
    """Return a function that writes a file of the package; its catalog is that of the process meanwhile."""
    root = tmp_path / PACKAGE
    for layer in ("", "bronze", "silver", "gold"):
        (root / layer).mkdir()
        (root / layer / "__init__.py").touch()

    def write(name: str, text: str) -> str:
        (root / name).write_text(dedent(text).lstrip("\n"))
        invalidate_caches()
        return name

    def forget() -> None:
        catalog.tables.cache_clear()
        for each in (code_files.files_of, code_files.versions_of, code_files._tree):
            each.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(catalog, "package", lambda: PACKAGE)
    monkeypatch.setattr(catalog, "PARTS", {})
    monkeypatch.setattr(code_files, "package", lambda: PACKAGE)
    monkeypatch.setattr(code_files, "tables_root", lambda: tmp_path)
    forget()
    write("bronze/pings.py", BRONZE)
    write("silver/pings.sql", PINGS)
    write("gold/pings_10m.sql", GOLD)
    yield write
    forget()


def gold() -> Windowed:
    found = catalog.find("gold.pings_10m")
    assert isinstance(found, Windowed)
    return found


@pytest.mark.usefixtures("put")
def test_a_file_of_sql_is_a_table_like_any_other() -> None:
    """Its head says what a declaration in Python would; the prose of the head is its summary."""
    assert [table.id for table in catalog.tables()] == [
        "bronze.pings",
        "silver.pings",
        "gold.pings_10m",
    ]
    assert gold().upstream == (catalog.find("silver.pings"),)
    assert (gold().key, gold().window, gold().closes_at) == (
        ("device_id", "window_from"),
        "10 minutes",
        "window_until",
    )
    assert gold().summary == (
        "How many pings each device has sent in ten minutes.\n\nGrain: one row a device and window."
    )


def test_a_module_in_python_reads_a_table_in_sql_and_the_other_way_round(put: Put) -> None:
    """Both are modules of one package."""
    put(
        "gold/busy.py",
        """
        from strandline import Recomputed, sql
        from scratch_sql.gold import pings_10m

        TABLE = Recomputed(
            name="busy",
            reads=(pings_10m.TABLE,),
            transform=sql("SELECT window_from, max(pings) AS most FROM {pings_10m} GROUP BY window_from"),
            key=("window_from",),
            window="10 minutes",
            window_from="window_from",
        )
        """,
    )
    put(
        "gold/busiest.sql",
        """
        -- kind: Recomputed
        -- key: window_from
        -- window: day of Europe/Helsinki
        -- window_from: window_from
        -- emits: on_change
        SELECT max(most) AS most, window_from FROM {gold.busy} GROUP BY window_from
        """,
    )
    busiest = catalog.find("gold.busiest")

    assert isinstance(busiest, Recomputed)
    assert [each.id for each in busiest.upstream] == ["gold.busy"]
    assert (busiest.window, busiest.emits) == (Day("Europe/Helsinki"), Emit.ON_CHANGE)


def test_each_field_of_a_table_is_read_from_a_head_or_says_why_not() -> None:
    """So that a field that is added to a kind is not forgotten here."""
    kinds = [kind for kind in get_args(Table) if kind is not Ingested]
    known = {each.name for kind in kinds for each in fields(kind)}

    assert known - {*FIELDS} == {*IN_PYTHON}
    assert {*FIELDS} - known == {"kind", "fields"}


def test_rules_lateness_and_lists_are_read_as_in_python(put: Put) -> None:
    """With the names that they have there."""
    put(
        "silver/pings.sql",
        PINGS.replace(
            "    -- key",
            """    -- lateness: late 2 hours, disorder 1 minute
    -- sensitive: device_id
    -- keeps: 400 days
    -- rules: required(ping_id, at, max_failed=0.2); between(ms, 0, 1000)
    --        quick: ms < 100 OR device_id = 'a;b'
    --        one_of(device_id, [a, b], on_fail=warn)
    -- expects: slow: count_if(ms > 500) <= 10
    -- references: device_id -> silver.pings_of_old.device_id
    -- key""",
        ),
    )
    put("silver/pings_of_old.sql", PINGS)
    table = catalog.find("silver.pings")

    assert isinstance(table, Judged)
    assert [rule.name for rule in table.rules] == [
        "missing:ping_id",
        "missing:at",
        "out_of_range:ms",
        "quick",
        "not_listed:device_id",
    ]
    assert table.rules[0].max_failed == 0.2
    assert table.rules[3].holds == "ms < 100 OR device_id = 'a;b'"
    assert (table.expects[0].aggregate, table.expects[0].high) == ("count_if(ms > 500)", 10)
    assert table.references[0][1].id == "silver.pings_of_old"
    assert (table.sensitive, table.keeps) == (("device_id",), "400 days")
    assert table.lateness.late.total_seconds() == 7200


def test_the_conditions_of_a_where_are_skips_under_their_own_text(put: Put) -> None:
    """Each by itself, so that the ledger says which of them passed records over."""
    put(
        "silver/pings.sql",
        PINGS + "    WHERE ms BETWEEN 0 AND 10 -- as the sensor says\n"
        "      AND (device_id <> 'test' OR ms > 1)\n",
    )
    table = catalog.find("silver.pings")

    assert isinstance(table, Judged)
    assert table.skipping == (
        Skip("_skipped = 0", name="WHERE ms BETWEEN 0 AND 10"),
        Skip("_skipped = 1", name="WHERE (device_id <> 'test' OR ms > 1)"),
    )
    assert replace(table, owner="me").skipping == table.skipping


def test_a_text_in_another_order_is_refused_where_it_is_declared(put: Put) -> None:
    """As other engines allow it; what is left of the SELECT could not be found."""
    put(
        "silver/pings.sql", PINGS.partition("    SELECT")[0] + "    FROM {pings} SELECT ping_id, at"
    )

    with pytest.raises(DefinitionError, match=r"pings.sql:\d+: it begins with FROM"):
        catalog.tables()


WRONG_RULES = {
    "required(ping_id, max_failed=20)": "a share from 0 to 1",
    "required(ping_id, max_failed=-3)": "a share from 0 to 1",
    "required(ping_id, max_failed='x')": "a share from 0 to 1",
    "required()": "names of columns",
    "required(a.b)": "a name without a point",
    "required('a.b')": "names of columns",
    "required(5)": "names of columns",
    "required(a, on_fail=zzz)": "on_fail=warn or quarantine or fail",
    "required(a, severity=fatal)": "severity=critical or warning or info",
    "required(a, null_ok=maybe)": "null_ok=true",
    "Rule(name=a, holds=5)": "Rule(",
    "required({[]})": "required(",
    "between(ms, low, high)": "between(",
    "between(ms, 10, 0)": "the lower bound first",
    "matches(device_id, 5)": "matches(",
    "one_of(device_id, [])": "one_of(",
}


@pytest.mark.parametrize(("rule", "hint"), WRONG_RULES.items(), ids=WRONG_RULES)
def test_a_rule_of_wrong_arguments_is_refused_in_its_line(put: Put, rule: str, hint: str) -> None:
    """And not at the first row, by an error of Python."""
    put("silver/pings.sql", PINGS.replace("-- key", f"-- rules: {rule}\n    -- key"))

    with pytest.raises(DefinitionError, match=r"pings.sql:5: rules: .* cannot be read") as refused:
        catalog.tables()

    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("*", "ping_id device_id ms at"),
        ("ms * 2 AS twice, *", "twice ping_id device_id ms at"),
        ("*, ms * 2 AS twice", "ping_id device_id ms at twice"),
    ],
)
def test_a_star_in_silver_is_the_fields_of_the_payload(
    put: Put, spark: SparkSession, columns: str, expected: str
) -> None:
    """An analyst's first query; what a record carries along comes once."""
    put(
        "silver/pings.sql",
        PINGS.replace("SELECT ping_id, device_id, ms, at", f"SELECT {columns}")
        + "    WHERE ms > 1\n",
    )
    table = catalog.find("silver.pings")
    assert isinstance(table, Judged)

    found = table.transform(spark.createDataFrame([], RECEIVED)).columns

    assert [each for each in found if each[0] != "_"] == expected.split()
    assert len(found) == len(set(found))
    assert replace(table, owner="me").transform == table.transform


@pytest.mark.parametrize(
    ("wrong", "said_"),
    [
        ("SELECT *, ms AS at FROM", "named at"),
        ("SELECT * EXCEPT (ms) FROM", "a star with"),
        ("SELECT p.* FROM", "a star with"),
        ("SELECT ping_id, at, ms AS _topic FROM", "the column _topic"),
        ("SELECT ping_id, at, ms AS _skipped FROM", "the column _skipped"),
        ("SELECT ping_id, at, _Offset FROM", "the column _Offset"),
    ],
)
def test_a_column_that_each_record_has_already_is_refused(put: Put, wrong: str, said_: str) -> None:
    """Spark would say that it is ambiguous, when the table runs."""
    put(
        "silver/pings.sql",
        PINGS.replace("SELECT ping_id, device_id, ms, at FROM", wrong).replace(
            "{pings}", "{pings} p"
        ),
    )

    with pytest.raises(DefinitionError, match=said_):
        catalog.tables()


@pytest.mark.parametrize(
    ("wrong", "said_"),
    [
        ("_payload string", "the field _payload"),
        ("ms string", "two fields are named ms"),
        ("MS string", "two fields are named MS"),
        ("c struct<d: int, D: int>", "two fields are named D"),
    ],
)
def test_a_field_that_is_there_already_is_refused(put: Put, wrong: str, said_: str) -> None:
    """One of the engine's own, or one of the table's."""
    put("silver/pings.sql", PINGS.replace("at timestamp", f"at timestamp, {wrong}"))

    with pytest.raises(DefinitionError, match=said_):
        catalog.tables()


def test_a_where_of_silver_that_may_throw_is_refused_as_among_skips(put: Put) -> None:
    """One record would end the stream, again and again."""
    put("silver/pings.sql", PINGS + "    WHERE ms > 0\n        AND 1 / ms > 0\n")

    with pytest.raises(
        DefinitionError, match=r"pings.sql:\d+: its WHERE says '1 / ms > 0': / can throw"
    ) as refused:
        catalog.tables()

    assert "try_divide" in refused.value.message


def test_only_ends_of_lines_divide_a_file(put: Put) -> None:
    """Other systems' marks of lines and pages are letters of a text, and of a comment."""
    put(
        "silver/pings.sql",
        PINGS.replace("Pings of devices.", "Pings\u2028of\u0085devices.")
        + "    WHERE device_id <> 'a\u2028b'",
    )
    table = catalog.find("silver.pings")

    assert isinstance(table, Judged)
    assert table.skipping[0].name == "WHERE device_id <> 'a\u2028b'"
    assert table.summary == "Pings\u2028of\u0085devices."


@pytest.mark.parametrize("head", ["/* a table */ SELECT a", "/* a\n   table */ SELECT a"])
def test_a_select_in_the_last_line_of_the_comment_is_refused(put: Put, head: str) -> None:
    """It would be prose."""
    put("gold/other.sql", f"{head}\nFROM {{silver.pings}}\n")

    with pytest.raises(DefinitionError, match="words are behind the comment") as refused:
        catalog.tables()

    assert refused.value.fields["line"] == head.count("\n") + 1


def test_what_a_lateness_says_twice_is_refused(put: Put) -> None:
    put("silver/pings.sql", PINGS.replace("-- key", "-- lateness: 2 hours, 3 hours\n    -- key"))

    with pytest.raises(DefinitionError, match="lateness: 2 hours, 3 hours cannot be read"):
        catalog.tables()


def test_a_disorder_that_no_lateness_can_have_is_refused_where_it_is_written(put: Put) -> None:
    """Not in the line of the engine that refuses it of a table in Python."""
    put("silver/pings.sql", PINGS.replace("-- key", "-- lateness: disorder 0 seconds\n    -- key"))

    with pytest.raises(
        DefinitionError, match=r"pings\.sql.*lateness: disorder 0 seconds cannot"
    ) as refused:
        catalog.tables()

    assert "1 millisecond or more" in str(refused.value.hint)


ASTRAY = {
    "bronze/orders.sql": "a table of bronze is declared in Python",
    "gold/BUSY.SQL": "busy.sql",
    "gold/finance/busy.sql": "is in no folder of a layer",
    "busy.sql": "is in no folder of a layer",
}


@pytest.mark.parametrize(("place", "said_"), ASTRAY.items(), ids=ASTRAY)
def test_a_table_in_a_file_of_another_place_or_name_is_named(
    put: Put, tmp_path: Path, place: str, said_: str
) -> None:
    """None is passed over in silence."""
    (tmp_path / PACKAGE / "gold" / "finance").mkdir()
    put(place, GOLD)

    with pytest.raises(DefinitionError) as refused:
        catalog.tables()

    assert place in refused.value.message
    assert said_ in f"{refused.value.message} {refused.value.hint}"


def test_hidden_files_drafts_and_other_queries_are_no_tables(put: Put, tmp_path: Path) -> None:
    """One system writes the first beside each file; a query without a head may be anywhere."""
    (tmp_path / PACKAGE / "queries").mkdir()
    for place in ("silver/._pings.sql", "silver/_draft.sql"):
        put(place, "no table")
    for place in ("queries/busy.sql", "busy.sql"):
        put(place, "SELECT 1")

    assert len(catalog.tables()) == 3


MISTAKES = {
    "a word": ("-- windw: 10 minutes", "-- window: 10 minutes", 8, "windw is no field", "window"),
    "a capital": ("-- Keys: a", "-- key: device_id, window_from", 7, "Keys is no field", "key"),
    "a kind": ("-- kind: Windwed", "-- kind: Windowed", 5, "Windwed is no kind", "Windowed"),
    "no kind": ("-- Here is none", "-- kind: Windowed", 1, "of which kind", "-- kind: Windowed"),
    "a field of others": (
        "-- keeps_held: 3 days",
        "-- Grain: one row a device and window.",
        3,
        "Windowed has no keeps_held",
        "table_fields.md",
    ),
    "no closes_at": (
        "-- The end is not said.",
        "-- closes_at: window_until",
        5,
        "Windowed needs closes_at",
        "-- closes_at: …",
    ),
    "a source": (
        "-- reads: silver.ping",
        "-- reads: silver.pings",
        6,
        "silver.ping",
        "silver.pings?",
    ),
    "a name in braces": ("FROM {ping}", "FROM {pings}", 12, "{ping} is none", "{pings}"),
    "no braces": ("FROM pings", "FROM {pings}", 12, "reads pings", "in braces: {pings}"),
    "a keyword": ("FORM {pings}", "FROM {pings}", 12, "cannot be read", "FORM mean FROM"),
    "a length": (
        "-- window: 10 minuets",
        "-- window: 10 minutes",
        8,
        "cannot be read",
        "10 minutes",
    ),
    "a column of the key": (
        "-- key: device, window_from",
        "-- key: device_id, window_from",
        7,
        "declares key: device, which its SELECT does not have",
        "device_id",
    ),
    "a column in capitals": (
        "-- key: Device_id, window_from",
        "-- key: device_id, window_from",
        7,
        "declares key: Device_id, which its SELECT does not have",
        "mean device_id",
    ),
    "the clock": ("now() AS pings", "count(*) AS pings", 11, "reads the clock", "event_at"),
    "chance": ("rand() AS pings", "count(*) AS pings", 11, "another value each time", "sha2"),
    "no name": ("count(*)", "count(*) AS pings", 11, "has no name", "AS a_name"),
    "a file": ("FROM delta.`orders`", "FROM {pings}", 12, "delta.`orders`", "not read"),
    "a function of rows": ("FROM range(10)", "FROM {pings}", 12, "range", "in braces"),
    "double quotes": (
        'SELECT "device_id" AS device_id, window.start',
        "SELECT device_id, window.start",
        11,
        "a text to Spark",
        "without quotes",
    ),
    "two statements": (
        "FROM {pings}; DROP TABLE x; SELECT 1",
        "FROM {pings}",
        11,
        "statements",
        "leave one",
    ),
    "a limit": ("'10 minutes') LIMIT 5", "'10 minutes')", 13, "LIMIT", "WHERE"),
    "a quote": ("'10 minutes)", "'10 minutes')", 13, "has no end", "close it"),
    "twice": (
        "-- key: device_id",
        "-- Grain: one row a device and window.",
        7,
        "declared twice",
        "leave one",
    ),
    "a value of a select": (
        "(SELECT max(ms) FROM {pings}) AS pings",
        "count(*) AS pings",
        11,
        "within one of its columns",
        "LEFT JOIN",
    ),
    "two of a name": (
        "-- reads: silver.pings, bronze.pings",
        "-- reads: silver.pings",
        12,
        "{pings} may be several",
        "{silver.pings}",
    ),
}


@pytest.mark.parametrize(
    ("wrong", "right", "line", "sentence", "hint"), MISTAKES.values(), ids=MISTAKES
)
def test_a_mistake_has_its_file_its_line_a_sentence_and_a_hint(  # noqa: PLR0913, PLR0917  # what is wrong, and what is said
    put: Put, wrong: str, right: str, line: int, sentence: str, hint: str
) -> None:
    """Found when the catalog is read, before Spark starts."""
    assert right in GOLD
    put("gold/pings_10m.sql", GOLD.replace(right, wrong))

    with pytest.raises(DefinitionError) as refused:
        catalog.tables()

    place, _, said_ = refused.value.message.partition(": ")
    assert place.endswith(f"gold/pings_10m.sql:{line}")
    assert sentence in said_
    assert hint in refused.value.hint


def test_a_file_of_another_system_is_the_same_table(put: Put, tmp_path: Path) -> None:
    """With a mark of the bytes' order, and with lines that end with two characters."""
    expected = gold()
    file = tmp_path / PACKAGE / "gold" / "pings_other.sql"
    file.write_bytes(b"\xef\xbb\xbf" + dedent(GOLD).strip().replace("\n", "\r\n").encode())
    put("gold/unused.txt", "")
    catalog.tables.cache_clear()
    found = catalog.find("gold.pings_other")

    assert isinstance(found, Windowed)
    assert (found.key, found.summary) == (expected.key, expected.summary)


def test_a_source_that_the_sql_does_not_read_is_refused(put: Put) -> None:
    """A stream would wait for its time."""
    put("silver/pongs.sql", PINGS)
    put(
        "gold/pings_10m.sql",
        GOLD.replace("reads: silver.pings", "reads: silver.pings, silver.pongs"),
    )

    with pytest.raises(
        DefinitionError, match=r"pings_10m.sql:6: gold.pings_10m reads silver.pongs, and"
    ):
        catalog.tables()


def test_a_mistake_in_a_text_of_python_has_the_line_of_the_declaration(put: Put) -> None:
    """And the line of the text."""
    put(
        "gold/other.py",
        """
        from strandline import Appended, sql
        from scratch_sql.silver import pings

        TABLE = Appended(
            name="other",
            reads=(pings.TABLE,),
            transform=sql('''
                SELECT ping_id, at
                FROM {pongs}
            '''),
            key=("ping_id",),
            event_at="at",
        )
        """,
    )

    with pytest.raises(
        DefinitionError, match=r"gold/other.py:\d+: line 3 of its SQL: {pongs} is none"
    ):
        catalog.tables()


def test_tables_in_sql_that_read_each_other_are_a_circle(put: Put) -> None:
    """Python would say that a name cannot be imported."""
    one = "-- kind: Appended\n-- reads: gold.{}\n-- key: a\n-- event_at: at\nSELECT a, at FROM {{{}}}\n"
    put("gold/one.sql", one.format("two", "two"))
    put("gold/two.sql", one.format("one", "one"))

    with pytest.raises(DefinitionError, match="circle"):
        catalog.tables()


def test_a_module_and_a_file_of_one_name_are_refused(put: Put) -> None:
    """Only one of them would be the table."""
    put("gold/pings_10m.py", "")

    with pytest.raises(
        DefinitionError, match=r"pings_10m\.py declares a table of this name as well"
    ):
        catalog.tables()


def test_the_version_of_a_table_is_what_its_sql_says_and_not_how_it_looks(put: Put) -> None:
    """Comments, blanks and the order of the head are no other code; a number is."""
    before = code_files.version_of(gold())
    looks = GOLD.replace("    FROM", "    -- from here\n      FROM  ").replace(
        "-- How many", "-- As many"
    )
    moved = looks.replace("    -- kind: Windowed\n", "").replace(
        "    -- window: 10", "    -- kind: Windowed\n    -- window: 10"
    )

    assert said(dedent(moved)) == said(dedent(GOLD))
    promised = dedent(GOLD).replace(
        "-- kind:", "-- fresh: 5 minutes by arrival\n-- provisional: 1 minute\n-- kind:", 1
    )
    assert (
        said(promised)
        == said(dedent(GOLD))
        != said(dedent(GOLD).replace("10 minutes", "9 minutes"))
    )
    for text, is_same in ((moved, True), (GOLD.replace("count(*)", "count(1)"), False)):
        put("gold/pings_10m.sql", text)
        code_files._tree.cache_clear()
        code_files.files_of.cache_clear()
        assert (code_files.version_of(gold()) == before) is is_same
    put("gold/pings_10m.sql", GOLD)
    put("silver/pings.sql", PINGS.replace("ms, at FROM", "ms + 1 AS ms, at FROM"))
    code_files._tree.cache_clear()
    assert code_files.version_of(gold()) != before


def test_a_column_that_is_not_there_is_named_with_its_line(put: Put, spark: SparkSession) -> None:
    """Only Spark's analyser knows it; what it says is a sentence, and no fault of ours."""
    put("gold/pings_10m.sql", GOLD.replace("device_id, window(at", "devise_id, window(at"))
    rows = spark.createDataFrame([], "ping_id string, device_id string, ms int, at timestamp")

    with pytest.raises(DefinitionError) as refused:
        gold().transform(rows)

    assert "gold/pings_10m.sql:13: " in refused.value.message
    assert "devise_id" in refused.value.message
    assert "device_id" in refused.value.hint


@pytest.mark.usefixtures("put")
def test_views_are_gone_after_a_function_was_asked(spark: SparkSession) -> None:
    """Also where it was refused; and rows that a batch has kept for itself stay kept."""
    rows = spark.createDataFrame([("a", "d", 1)], "ping_id string, device_id string, ms int")
    kept = rows.selectExpr("*", "TIMESTAMP '2026-11-20 12:00:00' AS at").persist()

    found: DataFrame = gold().transform(kept)

    assert [row["pings"] for row in found.collect()] == [1]
    assert kept.storageLevel.useMemory
    # Not `listTables`, which fails at a view of another test whose table is gone.
    listed = [row["tableName"] for row in spark.sql("SHOW TABLES").collect()]
    assert [name for name in listed if "strandline" in name] == []
    kept.unpersist()


@pytest.mark.parametrize(
    ("where", "word"),
    [
        ("WHERE at > 'now'", "'now'"),
        ("WHERE date_add(' today', 1) > at", "' today'"),
        ("WHERE user = device_id", "user"),
        ("WHERE ms IN (SELECT ms FROM {pings} WHERE at < 'yesterday')", "'yesterday'"),
    ],
)
def test_what_only_spark_sees_of_the_clock_is_refused_before_a_row_is_read(
    put: Put, spark: SparkSession, where: str, word: str
) -> None:
    """A text that is compared with a time, and a name that is no column."""
    head, _, select = GOLD.replace("Windowed", "Recomputed").partition("    -- closes_at")
    put(
        "gold/pings_10m.sql",
        f"{head}{select.partition(chr(10))[2]}".replace(
            "    GROUP BY", f"    {where}\n    GROUP BY"
        ),
    )
    rows = spark.createDataFrame([], "ping_id string, device_id string, ms int, at timestamp")
    table = catalog.find("gold.pings_10m")
    assert isinstance(table, Recomputed)

    with pytest.raises(DefinitionError, match=r"pings_10m.sql:\d+: ") as refused:
        table.transform(*[rows] * len(table.reads))

    assert f": {word} is " in refused.value.message


def test_a_rule_that_reads_the_clock_is_refused_when_its_types_are_known(
    put: Put, spark: SparkSession
) -> None:
    """Equal to a text may be a word of an enum; of a time Spark makes the moment."""
    rule = "-- rules: fine: device_id <> 'now'; fresh: at <> 'now'\n    -- key"
    put("silver/pings.sql", PINGS.replace("-- key", rule))
    table = catalog.find("silver.pings")
    assert isinstance(table, Judged)

    with pytest.raises(DefinitionError, match="'now' is another time each day"):
        table.transform(spark.createDataFrame([], RECEIVED))
