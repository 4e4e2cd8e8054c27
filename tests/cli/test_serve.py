"""A dashboard asks the lake over JDBC, and can do nothing else: real drivers, a real server, hostile statements."""

import re
import socket
import ssl
import stat
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial

import pytest
from strandline import catalog

from fleet.silver import dhcp_events, user_confirmations
from strandline.engine.ask.moments import note
from strandline.engine.lake.order_log import Asked, newest
from strandline.engine.service import sql_server
from tests.cli.attempts import ATTEMPTS
from tests.cli.questions import QUESTIONS
from tests.cli.serving import PASSWORD, Served, asked_lake, files, serving
from tests.cli.typed import PROGRAM
from tests.engine.written import entry, numbers, written
from tests.support import certificate
from tests.support.jdbc import Connection, Driver, SqlError, beeline, driver

GROWING = user_confirmations.TABLE
"""The table that gets rows while the server runs; who asks for it compares with what was there."""

GROWN = "SELECT count(*) FROM silver.user_confirmations"
DAMAGED = dhcp_events.TABLE
ELSEWHERE = {"HIVE_SERVER2_THRIFT_BIND_HOST": "127.0.0.3", "HIVE_SERVER2_THRIFT_PORT": "1"}
"""Hive's server prefers variables to its configuration: it would listen elsewhere, without TLS."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Start a server, and see that it stops in order."""
    folder = tmp_path_factory.mktemp("served")
    lake = asked_lake(folder / "lake")
    for table in (GROWING, DAMAGED):
        written(lake.table(table), numbers(1), entry(table).encoded())
    log = lake.table(DAMAGED).local / "_delta_log" / "00000000000000000000.json"
    log.write_text(log.read_text()[:40])
    (folder / "outside").mkdir()
    (folder / "outside" / "secret.csv").write_text("the moon is made of it\n")
    tls = certificate.made(folder)
    words = (
        *("--tls-cert", tls.certificate, "--tls-key", tls.key),
        *("--rows", 1000, "--timeout", "20s", "--memory", "768m", "--nice", 0),
    )
    with serving(lake, folder / "out.log", *words, env=ELSEWHERE) as url:
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


@pytest.mark.whole
@pytest.mark.parametrize(("sql", "expected"), QUESTIONS)
def test_a_query_is_answered(sql: str, expected: str, ana: Connection) -> None:
    """Over every layer, and as dashboards write it."""
    assert ana.value(sql) == expected


@pytest.mark.whole
def test_a_damaged_table_and_a_variable_of_hives_take_nothing_away(
    served: Served, ana: Connection
) -> None:
    """The server is where it says, and the table is named in what it prints."""
    assert ana.value("SELECT count(*) FROM silver.user_actions") == "3"
    said = (served.outside.parent / "out.log").read_text()
    assert f"{DAMAGED.id} cannot be shown" in said


@pytest.mark.whole
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
    assert ana.metadata("getPrimaryKeys", None, "silver", "user_actions") == []
    assert ana.metadata("getCrossReference", None, "silver", "a", None, "silver", "b") == []
    assert ana.inner.getMetaData().getDatabaseProductName() == "Spark SQL"


@pytest.mark.whole
def test_a_database_is_used(served: Served, jdbc: Driver) -> None:
    """By the address, and by a statement."""
    with jdbc.connected(served.at("silver"), "ana", PASSWORD) as connection:
        assert connection.value("SELECT count(*) FROM user_actions") == "3"
        connection.rows("USE gold")
        assert connection.value("SELECT count(*) FROM device_signal_10m") == "1"
    with pytest.raises(SqlError), jdbc.connected(served.at("elsewhere"), "ana", PASSWORD):
        pass


@pytest.mark.whole
def test_explain_shows_neither_the_lake_nor_the_salt(served: Served, ana: Connection) -> None:
    """The plan names files, and hashes values."""
    ((plan,),) = ana.rows("EXPLAIN SELECT user_id FROM silver.user_actions")

    assert "FileScan parquet" in str(plan)
    assert "(redacted)" in str(plan)
    assert str(served.lake.root) not in str(plan)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT nope FROM silver.user_actions", "UNRESOLVED_COLUMN"),
        ("SELECT action, count(*), user_id FROM silver.user_actions", "GROUP_BY"),
        ("SELECT * FROM silver.user_actions UNION SELECT 1", "NUM_COLUMNS_MISMATCH"),
        ("SELECT * FROM silver.user_actions LIMIT user_id", "LIMIT"),
        ("SELECT CAST(user_id AS INT) FROM silver.user_actions", "CAST_INVALID_INPUT"),
        ("SELECT raise_error(user_id) FROM silver.user_actions", "USER_RAISED"),
        ("SELECT assert_true(user_id = 'x') FROM silver.user_actions", "is not true"),
        ("SELEC 1", "PARSE_SYNTAX_ERROR"),
        ("SELECT * FROM ledger.entries", "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_an_error_shows_neither_the_lake_nor_the_salt(
    sql: str, words: str, served: Served, ana: Connection
) -> None:
    """Spark's own message has the plan: who has the salt can guess what is masked."""
    with pytest.raises(SqlError, match=words) as caught:
        ana.rows(sql)

    shown = str(caught.value)
    assert not re.search(r"[0-9a-f]{64}|sha2|alice", shown)
    assert str(served.lake.root) not in shown


@pytest.mark.whole
def test_a_query_that_wants_too_much_memory_ends_alone(ana: Connection) -> None:
    """The server, its other clients and their connections go on."""
    for sql in (
        "SELECT max(length(repeat(CAST(id AS STRING), 2000000000))) FROM range(2)",
        "SELECT length(repeat('x', 2000000000))",
        "SELECT size(array_repeat('x', 1000000000))",
    ):
        with pytest.raises(SqlError, match="more memory"):
            ana.rows(sql)

    assert ana.value("SELECT count(*) FROM silver.user_actions") == "3"


@pytest.mark.whole
def test_a_commit_is_seen_by_the_next_query(served: Served, ana: Connection) -> None:
    """Without a restart."""
    before = int(ana.value(GROWN) or 0)

    written(served.lake.table(GROWING), numbers(2), entry(GROWING).encoded())

    assert ana.value(GROWN) == str(before + 2)


def moment(connection: Connection, sql: str) -> str | None:
    """Run a statement about the moment; return what it says that the session reads at."""
    ((name, value),) = connection.rows(sql)
    assert name == "strandline.moment"
    return value


@pytest.mark.whole
def test_a_session_reads_at_a_moment_until_it_is_unset(served: Served, jdbc: Driver) -> None:
    """It and no other; its tables, its masks and its database are as before."""
    users = "SELECT user_id FROM silver.user_actions ORDER BY action_id"
    noted = note(served.lake, catalog.tables(), "a test")
    assert noted is not None
    with (
        jdbc.connected(served.at("silver"), "ana", PASSWORD) as one,
        jdbc.connected(served.at(), "ana", PASSWORD) as other,
    ):
        before, masked = int(one.value(GROWN) or 0), one.rows(users)
        assert moment(one, "SET strandline.moment") == "live"
        assert str(moment(one, "SET strandline.moment = 'LATEST'")).startswith("moment ")
        written(served.lake.table(GROWING), numbers(2), entry(GROWING, batch=1).encoded())

        assert (one.value(GROWN), other.value(GROWN)) == (str(before), str(before + 2))
        assert one.rows(users) == masked
        assert one.value("SELECT count(*) FROM user_confirmations") == str(before)
        tables = {row[2] for row in one.metadata("getTables", "", "silver", "%", None)}
        assert {"user_actions", GROWING.name} <= tables
        assert one.value("SELECT count(*) FROM quarantine.user_actions") == "1"
        for refused in ("SELECT * FROM ledger.entries", "DROP VIEW silver.user_actions"):
            with pytest.raises(SqlError):
                one.rows(refused)

        for wrong in ("'noon'", "99", "'2020-01-01'", "../x"):
            with pytest.raises(SqlError, match="strandline moments"):
                one.rows(f"SET strandline.moment = {wrong}")
        assert str(moment(one, "SET strandline.moment;")).startswith("moment ")
        assert one.value(GROWN) == str(before)
        assert moment(one, "RESET strandline.moment") == "live"
        assert one.value(GROWN) == str(before + 2)
        named = f"moment {noted.number} of "
        assert str(moment(one, f"set strandline.moment={noted.number}")).startswith(named)
        assert one.value(GROWN) == str(before)
        assert moment(one, "SET strandline.moment = ''") == "live"
        assert one.value(GROWN) == str(before + 2)


@pytest.mark.whole
def test_who_sees_sensitive_columns_sees_them_at_a_moment_too(served: Served, jdbc: Driver) -> None:
    """And each question is written down as ever; an address may name the moment, as a dashboard's does."""
    note(served.lake, catalog.tables(), "a test")
    pinned = served.at(more="?strandline.moment=LATEST")
    with jdbc.connected(pinned, "eve", PASSWORD) as eve:
        assert str(moment(eve, "SET strandline.moment")).startswith("moment ")
        asked = "SELECT DISTINCT user_id FROM silver.user_actions ORDER BY 1"
        assert eve.rows(asked) == [("alice",), ("bob",)]
    assert newest(served.lake, Asked(last=1)).orders[0].asked["sql"] == asked
    wrong = served.at(more="?strandline.moment=noon")
    with pytest.raises(SqlError), jdbc.connected(wrong, "ana", PASSWORD):
        pass
    asked = "SET strandline.moment; SELECT count(*) FROM silver.user_actions"
    assert "moment " in beeline(pinned, "ana", PASSWORD, asked).stdout


@pytest.mark.whole
def test_moments_that_no_session_reads_at_make_room_for_others(
    served: Served, jdbc: Driver
) -> None:
    """A dashboard that asks for the latest again and again; too many at the same time are refused."""
    with ExitStack() as open_:
        held = [
            open_.enter_context(jdbc.connected(served.at(), "ana", PASSWORD))
            for _ in range(sql_server.AT_ONCE)
        ]
        for number, each in enumerate(held):
            written(served.lake.table(GROWING), numbers(1), entry(GROWING, batch=number).encoded())
            note(served.lake, catalog.tables(), "a test")
            moment(each, "SET strandline.moment = LATEST")
        written(served.lake.table(GROWING), numbers(1), entry(GROWING, batch=9).encoded())
        note(served.lake, catalog.tables(), "a test")
        with jdbc.connected(served.at(), "ana", PASSWORD) as one:
            with pytest.raises(SqlError, match=r"sessions read at 4 other moments"):
                moment(one, "SET strandline.moment = LATEST")
            counts = [each.value(GROWN) for each in held]
            moment(held[0], "RESET strandline.moment")
            moment(one, "SET strandline.moment = LATEST")
            newest = one.value(GROWN)
            assert int(newest or 0) == int(counts[-1] or 0) + 1
            assert len({*counts}) == len(counts)


@pytest.mark.whole
def test_sensitive_values_are_masked(served: Served, jdbc: Driver, ana: Connection) -> None:
    """Equal ones alike; who may see them is written down before the answer, with the question."""
    asked = "SELECT user_id FROM silver.user_actions ORDER BY action_id"
    first, second, third = ana.rows(asked)
    assert first == second != third
    assert "alice" not in str(first)
    assert ana.value("SELECT count(*) FROM silver.user_actions WHERE user_id = 'alice'") == "0"
    before = newest(served.lake, Asked()).orders
    assert not [each for each in before if each.verb == "unmask"]
    assert ana.rows(asked) == [first, second, third]

    with jdbc.connected(served.at(), "eve", PASSWORD) as connection:
        shown = connection.rows(asked)

    assert shown == [("alice",), ("alice",), ("bob",)]
    shown = newest(served.lake, Asked(last=1)).orders[0]
    assert (shown.who, shown.why, shown.asked["sql"]) == ("eve", "fraud team", asked)
    assert (shown.over, shown.state) == ("jdbc", "shown")


@pytest.mark.whole
def test_the_roles_of_the_lake_say_who_is_let_in_and_sees_what_is_masked(
    served: Served, jdbc: Driver
) -> None:
    """Within seconds of a change, and as the users were added where there are none; a log-in that is refused is in the log of orders."""
    asked = "SELECT user_id FROM silver.user_actions WHERE action_id = 'a0'"

    def shown(user: str) -> str:
        with suppress(SqlError), jdbc.connected(served.at(), user, PASSWORD) as connection:
            return str(connection.value(asked))
        return "refused"

    def becomes(user: str, wanted: str, of: Callable[[str], str] = shown) -> bool:
        until = time.monotonic() + 30
        while (found := of(user)[: len(wanted)]) != wanted and time.monotonic() < until:
            time.sleep(0.2)
        return found == wanted

    served.lake.roles.put('[people]\neve = ["read"]\n')
    try:
        assert becomes("ana", "refused")
        assert becomes("eve", "[")
        found = partial(newest, served.lake, Asked(by="ana"))
        assert becomes("ana", "log in", lambda _: found().orders[0].verb if found().orders else "")
        served.lake.roles.put('[people]\neve = ["unmask"]\nana = ["unmask"]\n')
        assert becomes("eve", "alice")
        assert becomes("ana", "[")
    finally:
        served.lake.roles.remove()
    assert becomes("ana", "[")


@pytest.mark.whole
def test_an_answer_that_is_too_long_fails(ana: Connection) -> None:
    """It is not cut, so a part is never taken for the whole; LIMIT asks for a part."""
    assert len(ana.rows("SELECT id FROM range(1000)")) == 1000
    assert len(ana.rows("SELECT id FROM range(100000) LIMIT 7")) == 7
    with pytest.raises(SqlError, match="more than 1000 rows"):
        ana.rows("SELECT id FROM range(100000)")


@pytest.mark.whole
def test_a_query_that_takes_too_long_is_ended(ana: Connection) -> None:
    """And the connection answers the next one."""
    began = time.monotonic()

    with pytest.raises(SqlError, match="timed out"):
        ana.rows("SELECT sum(a.id * b.id) FROM range(3000000) a CROSS JOIN range(3000000) b")

    assert time.monotonic() - began < 60
    assert ana.value("SELECT 1") == "1"


EVIL = (
    "SELECT ? FROM (SELECT concat(repeat('a', 40), CAST(id AS STRING), '!') AS text, "
    "concat('(a+)+', substring('x$', CAST(id AS INT) + 2)) AS pattern, concat(repeat('%A', 30), 'b') AS chain FROM range(1))"
)
"""Letters that Java's engine tries in 2⁴⁰ ways, by a pattern that is another one in each row, as far as a plan says."""


@pytest.mark.whole
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("text RLIKE pattern", "false"),
        ("repeat('a', 40) || '!' RLIKE '(a+)+$'", "false"),
        ("regexp_extract(text, pattern, 1)", ""),
        ("size(regexp_extract_all(text, pattern, 1))", "0"),
        ("length(regexp_replace(text, pattern, ''))", "42"),
        ("size(split(text, pattern))", "1"),
        ("regexp_count(text, pattern)", "0"),
        ("regexp_substr(text, pattern)", None),
        ("regexp_instr(text, pattern)", "0"),
        ("text LIKE lower(chain)", "false"),
        ("text ILIKE chain", "false"),
        ("exists(array(text), each -> each RLIKE pattern)", "false"),
    ],
)
def test_a_pattern_takes_the_time_of_its_text(
    asked: str, expected: str | None, ana: Connection
) -> None:
    """Java's engine would be at it for days, and would hear neither the time limit nor a signal."""
    assert ana.value(EVIL.replace("?", asked)) == expected


@pytest.mark.whole
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM silver.user_actions WHERE action RLIKE concat('^(log|in)', '+$')", "3"),
        ("SELECT count(*) FROM silver.user_actions WHERE action LIKE '%o%i%'", "3"),
        ("SELECT count(*) FROM silver.user_actions WHERE action LIKE ANY ('x', '_ogi%')", "3"),
        ("SELECT count(*) FROM silver.user_actions WHERE action NOT LIKE ALL ('x_', 'l_g_n')", "0"),
        ("SELECT 'a1b22' RLIKE left('[0-9]{2}x', 8)", "true"),
        ("SELECT regexp_replace('a1b22', '([a-z])([0-9])', '$2$1')", "1a2b2"),
        ("SELECT element_at(split('a, b,c', ', *'), 2)", "b"),
        ("SELECT linear_extract('ab12', '([a-z]+)([0-9]+)', 2)", "12"),
        ("SELECT regexp_like('a', NULL)", None),
        ("SELECT regexp_extract(action, '(g)(i)', 2) AS x FROM silver.user_actions GROUP BY 1", "i"),
        ("SELECT element_at(str_to_map('a=1,b=2', ',', '='), 'b')", "2"),
        ("SELECT parse_url('file:/x?a=1&b=2', 'QUERY', 'b')", "2"),
    ],
)  # fmt: skip
def test_a_pattern_finds_what_it_found(sql: str, expected: str | None, ana: Connection) -> None:
    assert ana.value(sql) == expected


@pytest.mark.whole
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT 'ab' RLIKE concat('a(?=', 'b)')", "is none of RE2's"),
        ("SELECT count(*) FROM range(2) WHERE 'a' RLIKE concat('(?=', CAST(id AS STRING), ')')", "is none of RE2's"),
        ("SELECT 'a' RLIKE '((a{1000}){1000}){1000}'", "repeats too often"),
        ("SELECT str_to_map(action, concat('(a+)', '+$')) FROM silver.user_actions", "only plain ones are run"),
        ("SELECT str_to_map(action, ',', action) FROM silver.user_actions", "only plain ones are run"),
        ("SELECT parse_url(action, 'QUERY', action) FROM silver.user_actions", "makes an expression of Java's"),
        ("SELECT try_parse_url(action, 'QUERY', '(a+)+$') FROM silver.user_actions", "makes an expression of Java's"),
    ],
)  # fmt: skip
def test_a_pattern_that_is_not_run_is_refused_with_a_sentence(
    sql: str, words: str, ana: Connection
) -> None:
    with pytest.raises(SqlError, match=words):
        ana.rows(sql)


LONG = "repeat('a', 300000)"


@pytest.mark.whole
@pytest.mark.parametrize(
    "asked",
    [
        f"levenshtein({LONG}, {LONG} || 'b')",
        f"levenshtein({LONG}, {LONG}, 5)",
        f"sum(levenshtein({LONG} || id, {LONG}))",
        f"max(instr({LONG} || id, {LONG} || 'b'))",
        f"max(locate(id || {LONG}, {LONG}))",
        f"every(contains({LONG}, {LONG} || id))",
        f"max(length(replace({LONG}, {LONG} || id, '')))",
        f"max(split_part({LONG}, {LONG} || id, 1))",
        f"max(substring_index({LONG}, {LONG} || id, 1))",
        f"max(trim(BOTH {LONG} || 'b' || id FROM repeat('b', 300000)))",
        f"count_if({LONG} LIKE '{'a' * 20000}%b')",
    ],
)
def test_two_long_texts_are_not_compared_place_by_place(asked: str, ana: Connection) -> None:
    """What it costs is the product of two lengths, and it hears neither the time limit nor a signal before its end."""
    with pytest.raises(SqlError, match=r"is longer than 10000: |characters, more than 4096"):
        ana.rows(f"SELECT {asked} FROM range(1)")  # noqa: S608  # letters and digits


@pytest.mark.whole
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("levenshtein('kitten', 'sitting')", "3"),
        ("levenshtein('kitten', 'sitting', 2)", "-1"),
        ("levenshtein(CAST(id AS STRING), NULL)", None),
        (f"instr({LONG} || 'b', 'b')", "300001"),
        (f"contains({LONG}, CAST(id AS STRING))", "false"),
        (
            "size(transform(array(array(1), array(2)), each -> array_max(transform(each, x -> x + id))))",
            "2",
        ),
        ("array_join(array_sort(array(2, 1), (a, b) -> b - a), '')", "21"),
        ("trim(BOTH 'x' || id FROM 'x0a0')", "a"),
        ("trim('  a ')", "a"),
        ("split_part('a,b', ',' || left(CAST(id AS STRING), 0), 2)", "b"),
    ],
)
def test_short_ones_are(asked: str, expected: str | None, ana: Connection) -> None:
    assert ana.value(f"SELECT {asked} FROM range(1)") == expected  # noqa: S608  # as above


@pytest.mark.whole
def test_a_pattern_of_names_only_compares(ana: Connection) -> None:
    """Spark makes an expression of Java's of it, for each table and function."""
    chain = "(.?)" * 28 + ".{28}"

    for sql in (
        f"SHOW FUNCTIONS LIKE '{chain}'",
        f"SHOW TABLES IN silver LIKE '{chain}'",
        f"SHOW VIEWS IN silver LIKE '{'a*' * 9}'",
        f"SHOW DATABASES LIKE '{chain}'",
    ):
        with pytest.raises(SqlError, match="a pattern of names"):
            ana.rows(sql)
    for call, names in (
        ("getTables", ("", "%", chain, None)),
        ("getColumns", (None, "silver", "%", chain)),
        ("getFunctions", (None, None, chain)),
        ("getSchemas", (None, chain)),
    ):
        with pytest.raises(SqlError, match="a pattern of names"):
            ana.metadata(call, *names)
    assert ana.metadata("getTables", "", "silver", "user\\_act%", None)
    assert ana.rows("SHOW TABLES IN silver LIKE 'user_*|device*'")


@pytest.mark.prove(alone="the time limit, 20 seconds")
def test_a_long_search_is_ended_by_its_time_limit(ana: Connection) -> None:
    """Its pattern has ten thousand places, its text a million letters."""
    began = time.monotonic()

    with pytest.raises(SqlError, match="timed out"):
        ana.rows(
            "SELECT count(*) FROM range(100) WHERE concat(repeat('ab', 500000), CAST(id AS STRING)) RLIKE "
            "concat('((a|b)?){1000}(', repeat('(a|b)?', 600), '){1}', CAST(id AS STRING), 'c$')"
        )

    assert time.monotonic() - began < 60
    assert ana.value("SELECT 1") == "1"


@pytest.mark.prove(alone="the time limit, 20 seconds, three times")
@pytest.mark.parametrize(
    "asked",
    [
        "aggregate(sequence(1, 1000000), 0L, (a, x) -> a + aggregate(sequence(1, 1000000), 0L, (b, y) -> b + y))",
        "aggregate(sequence(1, 1000000), id, (a, x) -> a + size(sequence(1, 1000000)))",
        "size(array_sort(sequence(1, 10000), (a, b) -> a - b - size(sequence(1, 1000000))))",
    ],
)
def test_a_loop_in_a_loop_is_ended_by_its_time_limit(asked: str, ana: Connection) -> None:
    """A million times a million steps, all in one row."""
    began = time.monotonic()

    with pytest.raises(SqlError, match="timed out"):
        ana.rows(f"SELECT {asked} FROM VALUES (1L) AS one(id)")  # noqa: S608  # as above

    assert time.monotonic() - began < 60
    # Who waits behind it has a turn.
    assert ana.value("SELECT count(*) FROM range(10)") == "10"


@pytest.mark.whole
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


@pytest.mark.whole
def test_who_shows_no_password_keeps_no_client_out(served: Served, jdbc: Driver) -> None:
    """As many connections as the server has threads, silent ones and such as send a byte before each read's limit.

    Each took a thread for good, and a client was refused, or waited, until the server started anew.
    """
    port = int(served.url.rsplit(":", 1)[1].rstrip("/"))
    with ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            for _ in range(200)
        ]
        # A hand-shake of TLS with 512 bytes, and one of the password behind TLS, each of which comes byte by byte.
        slow = dict.fromkeys(held[::4], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        for number in range(0, 40, 2):
            inside = stack.enter_context(trusting.wrap_socket(held[number]))
            slow.pop(held[number], None)
            slow[inside], held[number] = b"\x01\x00\x00\x00\x05PLAIN\x02\x00\x00\x01\x00", inside
        until, sent = time.monotonic() + 60, 0
        while held:
            assert time.monotonic() < until, f"{len(held)} connections hold their threads"
            for each in {*slow} & {*held}:
                with suppress(OSError):
                    each.sendall(slow[each][sent : sent + 1] or b"\x00")
            held, sent = [each for each in held if is_open(each)], sent + 1
            time.sleep(1)

        with jdbc.connected(served.at(), "ana", PASSWORD) as connection:
            assert connection.value("SELECT 1") == "1"


@pytest.mark.whole
def test_a_pool_of_connections_waits_for_its_password_to_be_hashed_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hashed it at once, and all were closed where that took longer than a client has to show it: no client's fault."""
    monkeypatch.setattr(sql_server, "ROUNDS", 4_000_000)
    sql_server.add(served.lake, "pool", PASSWORD)
    port = int(served.url.rsplit(":", 1)[1].rstrip("/"))
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    secret = f"\0pool\0{PASSWORD}".encode()
    with ExitStack() as stack:
        pool = [
            stack.enter_context(
                trusting.wrap_socket(socket.create_connection(("127.0.0.1", port), 120))
            )
            for _ in range(40)
        ]
        for each in pool:
            each.sendall(b"\x01\x00\x00\x00\x05PLAIN\x02" + struct.pack(">I", len(secret)) + secret)

        assert [each.recv(1) for each in pool] == [b"\x05"] * len(pool)  # complete

    sql_server.remove(served.lake, "pool")


def is_open(connection: socket.socket) -> bool:
    """Return whether the other side has not closed a connection."""
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            pass
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False
    finally:
        with suppress(OSError):
            connection.settimeout(60)
    return False


@pytest.mark.whole
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


@pytest.mark.whole
def test_beeline_is_answered(served: Served) -> None:
    """Hive's own program."""
    done = beeline(served.at(), "ana", PASSWORD, "SELECT count(*) AS n FROM silver.user_actions")

    assert "n\n3\n" in done.stdout, done.stderr


@pytest.mark.whole
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
    assert (
        stat.S_IMODE(sql_server.place_of(served.lake).parent.local.stat().st_mode) == stat.S_IRWXU
    )
    with jdbc.connected(served.at(), "tom", PASSWORD) as connection:
        assert connection.value("SELECT 1") == "1"
        sql_server.remove(served.lake, "tom")
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
    """Return the files that no test changes, in tables that grow or by the moments that it notes."""
    own = (f"/{GROWING.name}/", "/_moments/")
    found = files(served).items()
    return {name: at for name, at in found if not any(each in name for each in own)}


@pytest.mark.whole
@pytest.mark.parametrize("sql", ATTEMPTS)
@pytest.mark.usefixtures("untouched")
def test_what_is_no_query_of_a_view_is_refused(sql: str, served: Served, ana: Connection) -> None:
    """Writes, definitions, code, other paths, settings."""
    with pytest.raises(SqlError) as caught:
        ana.rows(sql.format(lake=served.lake.root, outside=served.outside))

    assert "moon" not in str(caught.value)
