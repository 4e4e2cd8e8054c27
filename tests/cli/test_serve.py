"""A dashboard asks the lake over JDBC, and can do nothing else: real drivers, a real server, hostile statements."""

import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.engine.service import sql_users
from jobs.silver import user_confirmations
from tests.cli.attempts import ATTEMPTS
from tests.cli.serving import PASSWORD, Served, asked_lake, files, serving
from tests.cli.typed import PROGRAM, strandline
from tests.engine.written import entry, numbers, small_lake, written
from tests.support import certificate
from tests.support.jdbc import Connection, Driver, SqlError, beeline, driver

GROWING = user_confirmations.TABLE
"""The table that gets rows while the server runs; no other test asks for it."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Start a server, and see that it stops in order."""
    folder = tmp_path_factory.mktemp("served")
    lake = asked_lake(folder / "lake")
    written(lake.table(GROWING), numbers(1), entry(GROWING).encoded())
    (folder / "outside").mkdir()
    (folder / "outside" / "secret.csv").write_text("the moon is made of it\n")
    tls = certificate.made(folder)
    words = (
        *("--tls-cert", tls.certificate, "--tls-key", tls.key),
        *("--rows", 1000, "--timeout", "8s", "--memory", "768m", "--nice", 0),
    )
    with serving(lake, folder / "out.log", *words) as url:
        yield Served(lake=lake, outside=folder / "outside", url=url, options=tls.options)


@pytest.fixture(scope="module")
def jdbc() -> Iterator[Driver]:
    """Start the JVM of the clients."""
    with driver() as running:
        yield running


@pytest.fixture(scope="module")
def ana(served: Served, jdbc: Driver) -> Iterator[Connection]:
    """Connect as one who sees no sensitive column."""
    with jdbc.connected(served.at(), "ana", PASSWORD) as connection:
        yield connection


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", "1"),
        ("SELECT count(*) FROM bronze.device_telemetry", "5"),
        ("SELECT count(*) FROM silver.device_telemetry", "3"),
        ("SELECT count(*) FROM quarantine.device_telemetry", "1"),
        ("SELECT _offset FROM quarantine.user_actions", "8"),
        ("SELECT status FROM resolutions.user_actions", "discarded"),
        ("SELECT max(number) FROM gold.device_signal_10m", "0"),
        (
            "SELECT count(*) FROM `spark_catalog`.`silver`.`user_actions` t WHERE t.action = 'login'",
            "3",
        ),
        ("WITH s AS (SELECT number AS n FROM silver.device_telemetry) SELECT sum(n) FROM s", "3"),
        (
            (
                "SELECT sum(b.number) FROM bronze.device_telemetry b JOIN silver.device_telemetry s"
                " ON b.number = s.number WHERE b.number IN (SELECT number FROM gold.device_signal_10m)"
            ),
            "0",
        ),
        (
            (
                "SELECT max(n) FROM (SELECT row_number() OVER (PARTITION BY action ORDER BY action_id) n"
                " FROM silver.user_actions)"
            ),
            "3",
        ),
        ("SELECT percentile_approx(number, 0.5) FROM silver.device_telemetry", "1"),
        (
            "SELECT max(col) FROM silver.device_telemetry LATERAL VIEW explode(array(1, 2)) t AS col",
            "2",
        ),
        ("SELECT count(*) FROM range(5)", "5"),
        ("SELECT upper(current_user()) IS NOT NULL", "true"),
        ("SELECT '${env:HOME}${system:user.home}'", "${env:HOME}${system:user.home}"),
    ],
)
def test_a_query_is_answered(sql: str, expected: str, ana: Connection) -> None:
    """Over every layer, and as dashboards write it."""
    assert ana.value(sql) == expected


def test_a_dashboard_finds_its_way(ana: Connection) -> None:
    """What BI tools ask before they show a table."""
    databases = {"bronze", "silver", "gold", "quarantine", "resolutions"}
    any_table = ("", "%", "%", None)

    assert databases <= {row[0] for row in ana.metadata("getSchemas")}
    tables = {(row[1], row[2], row[3]) for row in ana.metadata("getTables", *any_table)}
    assert ("silver", "user_actions", "VIEW") in tables
    columns = ana.metadata("getColumns", None, "silver", "user_actions", "%")
    assert [(row[3], row[5]) for row in columns] == [
        ("action_id", "STRING"),
        ("user_id", "STRING"),
        ("action", "STRING"),
    ]
    assert ana.metadata("getTableTypes")
    assert ana.metadata("getCatalogs") == []
    assert ana.metadata("getTypeInfo")
    assert ana.metadata("getFunctions", None, None, "count")
    assert databases <= {row[0] for row in ana.rows("SHOW DATABASES")}
    assert ("silver", "user_actions", "false") in ana.rows("SHOW TABLES IN silver")
    assert ana.rows("SHOW VIEWS IN gold")
    assert ("user_id",) in ana.rows("SHOW COLUMNS IN silver.user_actions")
    assert ana.rows("DESCRIBE silver.user_actions")[0][:2] == ("action_id", "string")
    assert ana.rows("DESCRIBE QUERY SELECT 1 AS one")[0][:2] == ("one", "int")
    assert ana.rows("SHOW FUNCTIONS LIKE 'count'")
    assert ana.inner.getMetaData().getDatabaseProductName() == "Spark SQL"


def test_a_database_is_used(served: Served, jdbc: Driver) -> None:
    """By the address, and by a statement."""
    with jdbc.connected(served.at("silver"), "ana", PASSWORD) as connection:
        assert connection.value("SELECT count(*) FROM user_actions") == "3"
        connection.rows("USE gold")
        assert connection.value("SELECT count(*) FROM device_signal_10m") == "1"
    with pytest.raises(SqlError), jdbc.connected(served.at("elsewhere"), "ana", PASSWORD):
        pass


def test_explain_shows_neither_the_lake_nor_the_salt(served: Served, ana: Connection) -> None:
    """The plan names files, and hashes values."""
    ((plan,),) = ana.rows("EXPLAIN SELECT user_id FROM silver.user_actions")

    assert "FileScan parquet" in str(plan)
    assert "(redacted)" in str(plan)
    assert str(served.lake.root) not in str(plan)


def test_a_commit_is_seen_by_the_next_query(served: Served, ana: Connection) -> None:
    """Without a restart."""
    asked = "SELECT count(*) FROM silver.user_confirmations"
    assert ana.value(asked) == "1"

    written(served.lake.table(GROWING), numbers(2), entry(GROWING).encoded())

    assert ana.value(asked) == "3"


def test_sensitive_values_are_masked(served: Served, jdbc: Driver, ana: Connection) -> None:
    """Equal ones alike; who may see them is written down before the answer, with the question."""
    asked = "SELECT user_id FROM silver.user_actions ORDER BY action_id"
    first, second, third = ana.rows(asked)
    assert first == second != third
    assert "alice" not in str(first)
    assert ana.value("SELECT count(*) FROM silver.user_actions WHERE user_id = 'alice'") == "0"
    log = served.lake.log("unmasked")
    assert not log.exists()

    with jdbc.connected(served.at(), "eve", PASSWORD) as connection:
        shown = connection.rows(asked)

    assert shown == [("alice",), ("alice",), ("bob",)]
    line = log.text() or ""
    assert all(word in line for word in ("eve", "fraud team", asked))


def test_an_answer_that_is_too_long_fails(ana: Connection) -> None:
    """It is not cut, so a part is never taken for the whole; LIMIT asks for a part."""
    assert len(ana.rows("SELECT id FROM range(1000)")) == 1000
    assert len(ana.rows("SELECT id FROM range(100000) LIMIT 7")) == 7
    with pytest.raises(SqlError, match="more than 1000 rows"):
        ana.rows("SELECT id FROM range(100000)")


def test_a_query_that_takes_too_long_is_ended(ana: Connection) -> None:
    """And the connection answers the next one."""
    began = time.monotonic()

    with pytest.raises(SqlError, match="timed out"):
        ana.rows("SELECT sum(a.id * b.id) FROM range(3000000) a CROSS JOIN range(3000000) b")

    assert time.monotonic() - began < 60
    assert ana.value("SELECT 1") == "1"


@pytest.mark.parametrize(
    ("user", "password"), [("ana", "wrong horse"), ("tim", PASSWORD), ("ana", ""), ("", "")]
)
def test_a_stranger_is_refused(user: str, password: str, served: Served, jdbc: Driver) -> None:
    """Before any statement."""
    with pytest.raises(SqlError), jdbc.connected(served.at(), user, password):
        pass


def test_a_client_without_tls_is_refused(served: Served, jdbc: Driver) -> None:
    """A password is never sent in the clear."""
    with pytest.raises(SqlError), jdbc.connected(served.url, "ana", PASSWORD):
        pass


def test_what_an_address_sets_is_dropped(served: Served, jdbc: Driver) -> None:
    """An address may set options of Spark and of Hive, and name another user."""
    options = "?spark.sql.variable.substitute=true;hive.exec.post.hooks=x;spark.sql.session.timeZone=Asia/Tokyo"
    with jdbc.connected(served.at(more=options), "ana", PASSWORD) as connection:
        assert connection.value("SELECT '${env:HOME}'") == "${env:HOME}"
        assert connection.value("SELECT current_timezone()") == "UTC"
        assert "alice" not in str(connection.rows("SELECT user_id FROM silver.user_actions"))
    posing = served.at(more=";hive.server2.proxy.user=eve")
    with pytest.raises(SqlError), jdbc.connected(posing, "ana", PASSWORD):
        pass


def test_beeline_is_answered(served: Served) -> None:
    """Hive's own program."""
    done = beeline(served.at(), "ana", PASSWORD, "SELECT count(*) AS n FROM silver.user_actions")

    assert "n\n3\n" in done.stdout, done.stderr


def test_who_is_removed_is_refused_at_once(served: Served, jdbc: Driver) -> None:
    """Also on a connection that is open."""
    added = subprocess.run(
        [PROGRAM, "serve", "add-user", "tom", "--lake", str(served.lake.root)],
        input=f"{PASSWORD}\n",
        text=True,
        capture_output=True,
        check=False,
    )
    assert added.returncode == 0, added.stderr
    assert stat.S_IMODE(sql_users.place_of(served.lake).parent.local.stat().st_mode) == stat.S_IRWXU
    with jdbc.connected(served.at(), "tom", PASSWORD) as connection:
        assert connection.value("SELECT 1") == "1"
        sql_users.remove(served.lake, "tom")
        with pytest.raises(SqlError, match="no user tom"):
            connection.value("SELECT 1")


@pytest.fixture(scope="module")
def untouched(served: Served, ana: Connection) -> Iterator[None]:
    """See that no file of the lake or beside it was made, changed or removed by any attempt, and no view."""
    assert ana.value("SELECT 1") == "1"
    views = sorted(ana.metadata("getTables", "", "%", "%", None))
    before = _unchanging(served)
    yield
    assert _unchanging(served) == before
    assert sorted(ana.metadata("getTables", "", "%", "%", None)) == views
    assert "alice" not in str(ana.rows("SELECT * FROM silver.user_actions"))


def _unchanging(served: Served) -> dict[str, int]:
    """Return the files that no test changes."""
    return {name: at for name, at in files(served).items() if f"/{GROWING.name}/" not in name}


@pytest.mark.parametrize("sql", ATTEMPTS)
@pytest.mark.usefixtures("untouched")
def test_what_is_no_query_of_a_view_is_refused(sql: str, served: Served, ana: Connection) -> None:
    """Writes, definitions, code, other paths, settings."""
    with pytest.raises(SqlError) as caught:
        ana.rows(sql.format(lake=served.lake.root, outside=served.outside))

    assert "moon" not in str(caught.value)


def test_a_server_needs_a_lake_users_and_a_free_port(tmp_path: Path) -> None:
    """And for a network, TLS."""
    nowhere = strandline("serve", "--lake", tmp_path / "nowhere")
    lake = small_lake(tmp_path / "lake")
    without_users = strandline("serve", "--lake", lake.root)
    sql_users.add(lake, "ana", PASSWORD)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        second = strandline("serve", "--lake", lake.root, "--port", taken.getsockname()[1])
    in_clear = strandline("serve", "--lake", lake.root, "--host", "0.0.0.0")  # noqa: S104  # it is refused

    for answer, words in (
        (nowhere, "there is no lake"),
        (without_users, "add-user"),
        (second, "cannot be used"),
        (in_clear, "--tls-cert"),
    ):
        assert answer.code == 2
        assert words in answer.err
        assert "hint:" in answer.err
