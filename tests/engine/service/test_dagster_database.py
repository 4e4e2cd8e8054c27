"""Dagster's database is checked on a real server before anything is started; no message repeats a password."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg2
import pytest

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.engine.runtime.profiles import SecretStr
from strandline.engine.service.dagster_process import (
    LOCK,
    Reservation,
    SharedError,
    check_reachable,
)
from tests.support.postgres import PASSWORD, Server, served

WRONG = "hunter2"
PATIENCE = 60
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'history'"
CUT_HOLDER = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
)
WAITING = "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve a database that its user owns, and one that belongs to another user."""
    with served() as running:
        running.give_history()
        running.execute("CREATE DATABASE another")
        yield running


def address(server: Server, database: str, password: str = PASSWORD) -> SecretStr:
    return SecretStr(server.url(database, user="dagster", password=password))


def refused(url: SecretStr) -> LakeError:
    """Return the refusal, after a check that it contains no password."""
    with pytest.raises(LakeError) as caught:
        check_reachable(url)
    for secret in (PASSWORD, WRONG, "s3cr3t"):
        assert secret not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.whole
def test_an_owned_database_can_be_used(server: Server) -> None:
    """Whatever signs the password has."""
    check_reachable(address(server, "history"))


def test_a_wrong_password_is_an_error_of_the_setting(server: Server) -> None:
    """A retry would not help, and could lock the user out."""
    error = refused(address(server, "history", WRONG))

    assert isinstance(error, DefinitionError)
    assert 'password authentication failed for user "dagster"' in error.message
    assert "STRANDLINE_POSTGRES" in error.hint


def test_a_missing_database_is_named(server: Server) -> None:
    """The operator can then make it."""
    error = refused(address(server, "nowhere"))

    assert isinstance(error, DefinitionError)
    assert 'database "nowhere" does not exist' in error.message


def test_a_server_that_does_not_answer_may_do_so_later() -> None:
    """The message has the address."""
    error = refused(SecretStr(f"postgresql://dagster:{WRONG}@127.0.0.1:1/history"))

    assert isinstance(error, TransientError)
    assert "127.0.0.1" in error.message
    assert "STRANDLINE_POSTGRES" in error.hint


def test_a_parameter_that_the_driver_does_not_know_is_not_repeated(server: Server) -> None:
    """It could be the rest of a password with a question mark."""
    url = address(server, "history").get_secret_value()

    error = refused(SecretStr(f"{url}?{WRONG}=1"))

    assert isinstance(error, DefinitionError)


def test_the_refusal_of_a_user_without_rights_has_the_command_that_grants_them(
    server: Server,
) -> None:
    """Since PostgreSQL 15 only the owner may make tables; Dagster would stop in the middle of its first start."""
    error = refused(address(server, "another"))

    assert isinstance(error, DefinitionError)
    assert "dagster may not make tables in the database another" in error.message
    server.execute(error.hint.partition(": ")[2])
    check_reachable(address(server, "another"))


@pytest.mark.whole
def test_a_database_serves_one_lake_at_a_time(server: Server) -> None:
    """Two daemons would start each other's runs, each in its own lake."""
    url = address(server, "history")

    with closing(Reservation(url)):
        check_reachable(url)
        with pytest.raises(DefinitionError, match="another `strandline ui`"):
            Reservation(url)

    Reservation(url).close()


def test_the_reservation_survives_an_outage_of_the_server(server: Server) -> None:
    """Dagster survives it, so the lock against a second daemon must be taken again."""
    url, notes = address(server, "history"), list[str]()

    with closing(Reservation(url, notes.append, every=0.05)) as held:
        server.execute("ALTER DATABASE history ALLOW_CONNECTIONS false", CUT)
        until(lambda: len(notes) == 1)
        server.execute("ALTER DATABASE history ALLOW_CONNECTIONS true")
        until(lambda: len(notes) == 2)
        held.refuse_shared()
        with pytest.raises(SharedError):
            Reservation(url)

    assert "is away" in notes[0]
    assert "is back" in notes[1]
    assert not any(PASSWORD in line for line in notes)
    Reservation(url).close()


def test_a_reservation_that_another_lake_took_meanwhile_is_refused(server: Server) -> None:
    """The other lake waits for the database and locks it before ours asks again."""
    url = address(server, "history")

    with (
        closing(Reservation(url, every=0.05)) as held,
        closing(psycopg2.connect(server.url("history"))) as other,
        other.cursor() as cursor,
    ):
        waits = threading.Thread(
            target=cursor.execute, args=("SELECT pg_advisory_lock(%s)", (LOCK,))
        )
        waits.start()
        until(lambda: server.ask(WAITING, "history") == [(1,)])
        server.execute(CUT_HOLDER)
        waits.join(PATIENCE)

        def refused() -> bool:
            try:
                held.refuse_shared()
            except SharedError:
                return True
            return False

        until(refused)


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.02)
