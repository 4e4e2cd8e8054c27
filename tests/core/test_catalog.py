"""The catalog finds tables by itself, and an error names what is wrong with one.

The tables of these tests live in packages that are made for them, in the place of the real layers.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import invalidate_caches
from pathlib import Path
from textwrap import dedent
from typing import TypeAlias

import pytest
from pyspark import SparkContext
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer

Modules: TypeAlias = Mapping[str, str]
Declare: TypeAlias = Callable[..., None]

COMPLETE = "transform=print, key=('id',), event_at='at'"
HEAD = "from strandline.core.table import Appended, Ingested, Judged\n"
BRONZE = (
    HEAD
    + "from strandline.core.topic import Topic\n"
    + "TABLE = Ingested(name='pings', reads=(Topic(name='pings'),))\n"
)


def derived(kind: str, name: str, *reads: str) -> str:
    """Return a module that declares a table over those of other modules."""
    imports = "".join(f"import {module}\n" for module in reads)
    sources = "".join(f"{module}.TABLE, " for module in reads)
    return f"{HEAD}{imports}TABLE = {kind}(name='{name}', reads=({sources}), {COMPLETE})\n"


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Declare]:
    """Return a function that puts packages of its modules in the place of the layers."""
    made: list[str] = []

    def put(
        *, bronze: Modules | None = None, silver: Modules | None = None, gold: Modules | None = None
    ) -> None:
        layers = {Layer.BRONZE: bronze, Layer.SILVER: silver, Layer.GOLD: gold}
        for layer, modules in layers.items():
            folder = tmp_path / f"scratch_{layer}"
            folder.mkdir()
            (folder / "__init__.py").touch()
            for name, code in (modules or {}).items():
                (folder / f"{name}.py").write_text(dedent(code))
            made.append(folder.name)
        invalidate_caches()
        monkeypatch.setattr(catalog, "_folder", lambda layer: f"scratch_{layer}")
        monkeypatch.setattr(catalog, "PARTS", {})

    monkeypatch.syspath_prepend(tmp_path)
    catalog.tables.cache_clear()
    yield put
    catalog.tables.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in made]:
        del sys.modules[name]


def test_the_tables_are_found_each_after_those_it_reads() -> None:
    """A run of all tables takes them in this order."""
    found = [table.id for table in catalog.tables()]

    assert {"bronze.device_telemetry", "silver.device_telemetry", "gold.device_signal_10m"} <= {
        *found
    }
    for table in catalog.tables():
        for source in table.upstream:
            assert found.index(source.id) < found.index(table.id)


def test_two_static_tables_of_one_name_are_refused(declare: Declare) -> None:
    """They would share the versions in the lake."""
    silver = derived("Judged", "pings", "scratch_bronze.pings")
    gold = {
        name: "from strandline.core.static import Static\n"
        + derived("Appended", name, "scratch_silver.pings").replace(
            COMPLETE,
            f"{COMPLETE}, static=(Static(name='sites', columns='a int, b int', key=('a',), file='{file}'),)",
        )
        for name, file in (("one", "sites.csv"), ("same", "sites.csv"), ("two", "others.csv"))
    }
    declare(bronze={"pings": BRONZE}, silver={"pings": silver}, gold=gold)

    with pytest.raises(DefinitionError, match=r"gold\.two joins another static\.sites"):
        catalog.tables()


@pytest.mark.parametrize(
    ("parse", "is_refused"),
    [("parse_json", False), ("parse_csv", True), ("debezium()", True), ("own", False)],
)
def test_a_choice_about_undeclared_fields_needs_a_parser_that_sees_them(
    declare: Declare,
    parse: str,
    is_refused: bool,  # noqa: FBT001  # of the list
) -> None:
    """One of a user's own may: nothing is known of it."""
    bronze = (
        "from strandline import Ingested, Topic, debezium, parse_csv, parse_json\n"
        "def own(events, fields):\n    return parse_json(events, fields)\n"
        f"TABLE = Ingested(name='pings', reads=(Topic(name='pings', parse={parse}),))\n"
    )
    silver = derived("Judged", "pings", "scratch_bronze.pings").replace(
        COMPLETE, f"{COMPLETE}, on_new_field='freeze'"
    )
    declare(bronze={"pings": bronze}, silver={"pings": silver})

    if is_refused:
        with pytest.raises(DefinitionError, match=r"silver\.pings declares on_new_field='freeze'"):
            catalog.tables()
    else:
        assert [each.id for each in catalog.tables()] == ["bronze.pings", "silver.pings"]


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    """The commonest mistake is a forgotten layer."""
    with pytest.raises(DefinitionError) as caught:
        catalog.find("device_telemetry")

    assert caught.value.fields == {"table": "device_telemetry"}
    assert "silver.device_telemetry" in caught.value.hint


def test_a_module_in_a_layers_folder_is_all_that_a_table_needs(declare: Declare) -> None:
    """There is no registry and no second place."""
    declare(
        bronze={"pings": BRONZE},
        silver={"pings": derived("Judged", "pings", "scratch_bronze.pings")},
    )

    assert [table.id for table in catalog.tables()] == ["bronze.pings", "silver.pings"]


@pytest.mark.whole
def test_a_table_comes_after_those_of_its_own_layer_that_it_reads(declare: Declare) -> None:
    """By name alone ``answers`` would run before what it is made of."""
    declare(
        bronze={"pings": BRONZE},
        silver={"pings": derived("Judged", "pings", "scratch_bronze.pings")},
        gold={
            "answers": derived("Appended", "answers", "scratch_gold.questions"),
            "questions": derived("Appended", "questions", "scratch_silver.pings"),
        },
    )

    found = [table.id for table in catalog.tables()]

    assert found == ["bronze.pings", "silver.pings", "gold.questions", "gold.answers"]


@pytest.mark.parametrize(
    "code",
    [
        "'''A module without a table.'''",
        "TABLE = 'pings'",
        BRONZE.replace("name='pings'", "name='pongs'"),
        derived("Appended", "pings", "fleet.silver.user_actions"),
    ],
    ids=["no table", "no Table", "another name", "another layer"],
)
def test_a_module_that_does_not_declare_its_own_table_is_named(declare: Declare, code: str) -> None:
    """Module, Delta table, asset, checkpoint and test share one name, so that each is found from any other."""
    declare(bronze={"pings": code})

    with pytest.raises(DefinitionError) as caught:
        catalog.tables()

    assert str(caught.value.fields["file"]).endswith("scratch_bronze/pings.py")
    assert "TABLE = Ingested(name='pings'" in caught.value.hint


def test_tables_that_read_each_other_are_refused_as_a_circle(declare: Declare) -> None:
    """Nothing could ever run first."""
    first = derived("Appended", "b", "scratch_silver.pings").replace("TABLE =", "OLDER =")
    declare(
        bronze={"pings": BRONZE},
        silver={"pings": derived("Judged", "pings", "scratch_bronze.pings")},
        gold={
            "a": f"{first}TABLE = Appended(name='a', reads=(OLDER,), {COMPLETE})\n",
            "b": derived("Appended", "b", "scratch_gold.a"),
        },
    )

    with pytest.raises(DefinitionError, match="circle") as caught:
        catalog.tables()

    assert "gold.a" in caught.value.message
    assert "gold.b" in caught.value.message


def test_a_table_that_reads_one_which_is_in_no_layer_is_refused(declare: Declare) -> None:
    """A copy of a table under another name looks like a source, and no run makes it."""
    lost = derived("Judged", "lost", "scratch_bronze.pings").replace("TABLE =", "LOST =")
    stray = f"{lost}TABLE = Appended(name='a', reads=(LOST,), {COMPLETE})\n"
    declare(bronze={"pings": BRONZE}, gold={"a": stray})

    with pytest.raises(DefinitionError, match=r"silver\.lost"):
        catalog.tables()


@pytest.mark.parametrize(
    ("code", "line", "word"),
    [
        (derived("Judged", "pings", "scratch_bronze.pings").replace("key", "kei"), 3, "kei"),
        ("x = 1\ny = = 2\n", 2, "SyntaxError"),
        ("from strandline.core.table import Tabel\n", 1, "Tabel"),
        (derived("Judged", "pings", "scratch_bronze.pongs"), 2, "scratch_bronze.pongs"),
        (derived("Judged", "pings", "scratch_bronze.pings").replace("key=('id',), ", ""), 3, "key"),
        (derived("Judged", "pings", "scratch_bronze.pings").replace("('id',)", "()"), 3, "key"),
    ],
    ids=["a field", "syntax", "an import", "a module", "no key", "an empty key"],
)
def test_a_mistake_is_refused_with_its_file_and_line(
    declare: Declare, code: str, line: int, word: str
) -> None:
    """Before Spark is started, and not as a trace."""
    declare(bronze={"pings": BRONZE}, silver={"pings": code})

    with pytest.raises(DefinitionError) as caught:
        catalog.tables()

    assert f"scratch_silver/pings.py:{line}: " in caught.value.message
    assert word in caught.value.message


@pytest.mark.parametrize("made", ["F.desc('at')", "F.col('at') + 1", "Window.partitionBy('at')"])
def test_a_column_that_is_made_where_a_module_is_read_is_refused_with_the_way(
    declare: Declare, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """Its line is the user's and not one of Spark's, whatever called it; another test's session would hide it."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    code = f"from pyspark.sql import Window, functions as F\n\nORDER = {made}\n"
    declare(bronze={"pings": code})

    with pytest.raises(DefinitionError, match=r"scratch_bronze/pings\.py:3: ") as caught:
        catalog.tables()

    assert "within the table's function" in caught.value.hint


@pytest.mark.whole
@pytest.mark.parametrize(
    ("kind", "field", "hint"),
    [
        ("Judged", "dimension=None", "declare the dimension in a table above it"),
        ("Judged", "key_null_ok=('id',)", "holds back the rows that lack a part of their key"),
        ("Judged", "layer='silver'", "leave it out: the kind says it"),
        (
            "Judged",
            "kei=('id',)",
            "Judged needs name, reads, transform, key, event_at and may have",
        ),
    ],
)
def test_a_field_that_a_kind_has_not_is_refused_with_those_it_has(
    declare: Declare, kind: str, field: str, hint: str
) -> None:
    """The commonest mistake is to declare a window as a row, or the other way round."""
    code = derived(kind, "pings", "scratch_bronze.pings").replace("key=", f"{field}, key=")
    declare(bronze={"pings": BRONZE}, silver={"pings": code})

    with pytest.raises(DefinitionError, match=r"scratch_silver/pings\.py:3: TypeError") as caught:
        catalog.tables()

    assert hint in caught.value.hint


def test_a_table_of_no_kind_is_refused_with_the_kinds_there_are(declare: Declare) -> None:
    """As tables were declared before they had kinds."""
    declare(
        bronze={"pings": "from strandline.core.table import Table\nTABLE = Table(name='pings')\n"}
    )

    with pytest.raises(DefinitionError, match=r"pings\.py:2: TypeError") as caught:
        catalog.tables()

    assert "Ingested, Judged, Windowed, Appended, Upserted, Recomputed" in caught.value.hint


def test_a_derived_table_of_silver_is_declared_with_its_layer(declare: Declare) -> None:
    """Gold is what most derived tables are, so the others say that they are not."""
    declare(
        bronze={"pings": BRONZE},
        silver={
            "pings": derived("Judged", "pings", "scratch_bronze.pings"),
            "rows": derived("Appended", "rows", "scratch_silver.pings"),
        },
    )

    with pytest.raises(DefinitionError, match=r"silver\.rows") as caught:
        catalog.tables()

    assert "layer=Layer.SILVER" in caught.value.hint


def test_a_table_knows_its_topic_or_its_tables() -> None:
    """Bronze has no table before it, and the others no topic."""
    found = {table.id: table for table in catalog.tables()}
    bronze, silver = found["bronze.user_actions"], found["silver.user_actions"]
    gold = found["gold.confirmed_logins"]

    assert ([topic.name for topic in bronze.topics], bronze.upstream) == (["user-actions"], ())
    assert (silver.topics, silver.upstream) == ((), (bronze,))
    assert gold.upstream == (silver, found["silver.user_confirmations"])
    assert str(gold) == "gold.confirmed_logins"
