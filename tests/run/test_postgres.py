"""Dagster's database is looked at before anything is started, on a real server; no password is repeated."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from jobs.core.errors import DefinitionError, LakeError, TransientError
from jobs.run.postgres import check_reachable, reserved
from tests.support.postgres import PASSWORD, Server, served

WRONG = "hunter2"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve a database of its own to a user who is nothing else, and one that is another's."""
    with served() as running:
        running.tell(
            f"CREATE ROLE dagster LOGIN PASSWORD '{PASSWORD}'",
            "CREATE DATABASE history OWNER dagster",
            "CREATE DATABASE another",
        )
        yield running


def address(server: Server, database: str, password: str = PASSWORD) -> SecretStr:
    return SecretStr(server.url(database, user="dagster", password=password))


def refused(url: SecretStr) -> LakeError:
    """See that it is refused, and that nothing of the password is told."""
    with pytest.raises(LakeError) as caught:
        check_reachable(url)
    for secret in (PASSWORD, WRONG, "s3cr3t"):
        assert secret not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def test_a_database_of_ones_own_can_be_used(server: Server) -> None:
    """Whatever signs the password has."""
    check_reachable(address(server, "history"))


def test_a_wrong_password_is_the_setting_s_mistake(server: Server) -> None:
    """Trying again would not help, and could lock the user out."""
    error = refused(address(server, "history", WRONG))

    assert isinstance(error, DefinitionError)
    assert 'password authentication failed for user "dagster"' in error.message
    assert "STRANDLINE_POSTGRES" in error.hint


def test_a_database_that_is_not_there_is_named(server: Server) -> None:
    """So that it can be made."""
    error = refused(address(server, "nowhere"))

    assert isinstance(error, DefinitionError)
    assert 'database "nowhere" does not exist' in error.message


def test_a_server_that_does_not_answer_may_do_so_later() -> None:
    """With the address that was tried."""
    error = refused(SecretStr(f"postgresql://dagster:{WRONG}@127.0.0.1:1/history"))

    assert isinstance(error, TransientError)
    assert "127.0.0.1" in error.message
    assert "STRANDLINE_POSTGRES" in error.hint


def test_a_parameter_that_the_driver_does_not_know_is_not_repeated(server: Server) -> None:
    """It could be the rest of a password that holds a question mark."""
    url = address(server, "history").get_secret_value()

    error = refused(SecretStr(f"{url}?{WRONG}=1"))

    assert isinstance(error, DefinitionError)


def test_one_who_may_not_make_tables_is_told_how_they_may(server: Server) -> None:
    """Since PostgreSQL 15 only the owner may; Dagster would stop in the middle of its first start."""
    error = refused(address(server, "another"))

    assert isinstance(error, DefinitionError)
    assert "dagster may not make tables in the database another" in error.message
    server.tell(error.hint.partition(": ")[2])
    check_reachable(address(server, "another"))


def test_a_database_serves_one_lake_at_a_time(server: Server) -> None:
    """Two daemons would start each other's runs, each in its own lake."""
    url = address(server, "history")

    with reserved(url):
        check_reachable(url)
        with pytest.raises(DefinitionError, match="another `strandline ui`"), reserved(url):
            pass

    with reserved(url):
        pass
