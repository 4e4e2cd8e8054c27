"""A Spark that is not ours reads a lake, Spark Connect's own server first of all; a table is not written by it, and a sentence says so."""

import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyarrow import feather
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.core.stateful import AvailableNow
from strandline.core.table import Table
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.open_table import opened
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.settings import connect_variable
from strandline_infra import java
from tests.architecture.tree import ROOT
from tests.cli import inside
from tests.cli.typed import strandline
from tests.engine.written import small_lake, written
from tests.support.connect_server import client, plain_jars, serving
from tests.support.events import received
from tests.support.poison import AFTER, GOOD
from tests.support.readers import by_us, rows_of

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
USERS = user_actions.TABLE.id
CALLS = re.compile(
    r"\._(?:jvm|jsc|jdf|jsq|jsparkSession|gateway|call_java)\b|\.sparkContext\b|(?<!\w)(?:jvm|classic|hadoop)\(|launch_gateway"
)
TABLES = (bronze.TABLE, silver.TABLE, gold.TABLE)

READ = """
from pyarrow import feather
from pyspark.sql import SparkSession
from strandline import lake
assert type(SparkSession.builder.getOrCreate()).__module__.startswith("pyspark.sql.connect")
opened = lake(given["lake"], unmasked="a test")
for name, file in given["files"].items():
    feather.write_feather(opened[name].spark(given["at"]).toArrow(), file, compression="uncompressed")
answer("read")
"""
MASKED = """
from strandline import lake
users = [row.user_id for row in lake(given["lake"])[given["table"]].spark().collect()]
answer(users)
"""
HANDED = """
from pyspark.sql import DataFrame, SparkSession
from strandline import lake
mine = SparkSession.builder.remote(given["address"]).getOrCreate()
opened = lake(given["lake"])
names = ("ledger.entries", "quarantine.device_telemetry", "resolutions.device_telemetry")
views = {each: opened[each].spark(by=mine) for each in names if each in opened.tables()}
assert all(isinstance(each, DataFrame) for each in views.values())
same = {name: rows.toArrow().num_rows == opened[name].arrow().num_rows for name, rows in views.items()}
past = opened[given["table"]].spark(0, by=mine)
answer([same, past.count()])
"""
ASSET = """
import dagster as dg
from pyspark.sql import DataFrame
from strandline_dagster import TableIOManager
layer, name = given["table"].split(".")
@dg.asset(ins={"rows": dg.AssetIn(key=[layer, name], input_manager_key="tables")})
def counted(rows: DataFrame) -> dg.MaterializeResult:
    kind = type(rows).__module__
    return dg.MaterializeResult(metadata={"rows": rows.count(), "kind": kind})
done = dg.materialize(
    [counted, dg.AssetSpec([layer, name])],
    resources={"tables": TableIOManager(lake=given["lake"])},
    instance=dg.DagsterInstance.ephemeral(),
)
(made,) = done.get_asset_materialization_events()
answer({name: entry.value for name, entry in made.materialization.metadata.items()})
"""
REFUSED = """
from pathlib import Path
from pyspark.sql import SparkSession
from strandline import DefinitionError, trial_spark
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.settings import settings
if given["remote"]:
    SparkSession.builder.remote(given["remote"]).getOrCreate()
try:
    with trial_spark(Path(given["folder"])):
        answer("it started")
except DefinitionError as error:
    answer([error.message, error.hint])
"""
FOREIGN = """
from pathlib import Path
from pyarrow import feather
from pyspark.sql import SparkSession
from strandline import DefinitionError, lake, trial_spark
theirs = SparkSession.builder.master("local[1]").config(map=given["options"]).getOrCreate()
rows = lake(given["lake"], unmasked="a test")[given["table"]].spark().toArrow()
feather.write_feather(rows, given["file"], compression="uncompressed")
try:
    with trial_spark(Path(given["folder"])):
        answer("it started")
except DefinitionError as error:
    answer([error.message, error.hint])
theirs.stop()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server that has Delta's jars and nothing of ours."""
    with serving(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture
def filled(spark: SparkSession, clock: Callable[[], datetime], lake: Lake) -> Lake:
    """Return a lake with three layers that our Spark has written, and a table with users."""
    made(spark, clock, lake, GOOD)
    for number, user in enumerate(("anna", "anna", "ben")):
        row = {"action_id": str(number), "user_id": user, "event_at": NOON}
        written(lake.table(user_actions.TABLE), [row])
    return lake


def made(spark: SparkSession, clock: Callable[[], datetime], lake: Lake, events: Any) -> None:  # noqa: ANN401  # events
    received(lake, events)
    for table in (silver.TABLE, gold.TABLE):
        run(table, AvailableNow(), lake, site=Site(spark=spark, clock=clock))


def agreed(lake: Lake, server: str, folder: Path, at: int | None = None) -> int:
    """See that the server finds the rows that we find; return their number."""
    files = {each.id: str(folder / f"{each.id}.arrow") for each in TABLES}
    client(READ, {"lake": lake.root, "files": files, "at": at}, env={"SPARK_REMOTE": server})
    return sum(_same(lake, each, files[each.id], at) for each in TABLES)


def _same(lake: Lake, table: Table, file: str, at: int | None = None) -> int:
    found = rows_of(feather.read_table(file, memory_map=False))
    assert found == rows_of(by_us(lake.table(table), at)), table.id
    return sum(found.values())


@pytest.mark.slow
@pytest.mark.whole
def test_spark_connect_reads_what_we_read_also_after_maintenance(  # noqa: PLR0913, PLR0917  # fixtures
    filled: Lake,
    server: str,
    spark: SparkSession,
    clock: Callable[[], datetime],
    tmp_path: Path,
    lake: Lake,
) -> None:
    """Of all layers, with more rows in the same server, files put together and a log that was cut; a past version as well."""
    first = agreed(filled, server, tmp_path)
    assert first > len(TABLES)

    made(spark, clock, lake, AFTER)
    second = agreed(filled, server, tmp_path)
    before = {each.id: latest_version(filled.table(each)) for each in TABLES}
    inside.succeeded("maintain", "--lake", filled.root)
    for each in TABLES:  # these are too small for it
        opened(filled.table(each)).optimize.compact()
    assert any(latest_version(filled.table(each)) > before[each.id] for each in TABLES)

    assert agreed(filled, server, tmp_path) == second > first
    assert agreed(filled, server, tmp_path, at=1) < second


@pytest.mark.slow
@pytest.mark.whole
def test_users_are_masked_and_what_is_no_table_is_handed_over(filled: Lake, server: str) -> None:
    """By the session of a variable, and by one that a program has and gives."""
    given = {"lake": filled.root, "table": USERS, "address": server}

    users = client(MASKED, given, env={"SPARK_REMOTE": server})
    assert all(each.startswith("[") for each in users)
    assert len(users) == 3
    assert len({*users}) == 2
    same, past = client(HANDED, given)
    assert len(same) > 1
    assert all(same.values()), same
    assert past == 1


@pytest.mark.slow
@pytest.mark.whole
def test_an_asset_of_dagster_reads_by_the_same_server(filled: Lake, server: str) -> None:
    """As its annotation says, and with the version among its metadata."""
    given = {"lake": filled.root, "table": silver.TABLE.id}

    made = client(ASSET, given, env={"SPARK_REMOTE": server})

    assert made["kind"].startswith("pyspark.sql.connect")
    assert made["rows"] == by_us(filled.table(silver.TABLE)).num_rows
    assert made[f"{silver.TABLE.id} version"] == latest_version(filled.table(silver.TABLE))


@pytest.mark.slow
@pytest.mark.whole
def test_a_session_of_spark_connect_writes_no_table(server: str, tmp_path: Path) -> None:
    """PySpark marks the process, so the next thing that needs a JVM is refused by that mark."""
    message, hint = client(REFUSED, {"remote": server, "folder": tmp_path})
    assert "Spark Connect" in message
    assert "SPARK_CONNECT_MODE_ENABLED" in hint


@pytest.mark.parametrize("words", [("run", silver.TABLE.id), ("verify", gold.TABLE.id)])
def test_a_verb_that_writes_is_refused_where_a_variable_names_a_server(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """Before anything is asked of the server, and without its address, which may have a token in it."""
    address = "sc://127.0.0.1:1/;token=s3cret"
    lake = small_lake(tmp_path / "lake")
    env = {"SPARK_REMOTE": address, "STRANDLINE_KAFKA": "127.0.0.1:1"}

    answer = strandline(*words, "--lake", lake.root, env=env)

    assert answer.code == DefinitionError.exit_code, answer.printed
    assert "over Spark Connect, which SPARK_REMOTE asks for" in answer.err
    assert "env -u SPARK_REMOTE strandline" in answer.err
    assert "s3cret" not in answer.printed
    assert "Traceback" not in answer.printed


@pytest.mark.slow
@pytest.mark.whole
def test_a_spark_that_was_started_elsewhere_reads_and_writes_no_table(
    filled: Lake, tmp_path: Path
) -> None:
    """A notebook of a platform begins with one."""
    options = {
        "spark.jars": ",".join(map(str, plain_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    file = str(tmp_path / "rows.arrow")
    given = {
        "lake": filled.root,
        "table": silver.TABLE.id,
        "file": file,
        "folder": tmp_path,
        "options": options,
    }

    env = {"JAVA_HOME": str(java.java_home())}
    message, hint = client(FOREIGN, given, env=env, folder=tmp_path)

    assert _same(filled, silver.TABLE, file) > 0
    assert "started without what tables need" in message
    assert "spark.stop()" in hint


def test_another_spark_is_refused_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform's build has a version of its own."""
    with pytest.raises(DefinitionError, match=r"Spark 4\.0\.2-amzn-0") as caught:
        spark_session.refuse_version("4.0.2-amzn-0")
    assert spark_session.SPARK in caught.value.hint
    spark_session.refuse_version(spark_session.SPARK)
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"pyspark=={spark_session.SPARK}" in listed
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE"):
        monkeypatch.delenv(name, raising=False)
    assert connect_variable() is None
    monkeypatch.setenv("SPARK_API_MODE", "Connect")
    assert connect_variable() == "SPARK_API_MODE"


def test_the_page_names_each_module_that_calls_the_jvm() -> None:
    """The list of what no managed Spark has is whole, and has none that calls it no more."""
    page = (ROOT / "infra/docs/managed_sparks.md").read_text()
    folder = ROOT / "jobs/strandline"
    section = page.partition("## Each call into the JVM")[2]

    found = {
        str(each.relative_to(ROOT))
        for each in folder.rglob("*.py")
        if CALLS.search(each.read_text())
    }

    assert {*re.findall(r"\((?:\.\./){2}(\S+\.py)\)", section)} == found
