"""A store that does not answer is an outage: each client's own words for it are recognised."""

import socket
from datetime import timedelta

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from infra.broker import HOST
from jobs.engine.runtime.outage import absence, skipped_in_outage
from jobs.engine.runtime.store_away import StoreAwayError, is_silent_store, reason


@pytest.fixture
def nothing() -> str:
    """Return the address of a port at which no program listens."""
    with socket.create_server((HOST, 0)) as server:
        return f"http://{HOST}:{server.getsockname()[1]}"


def test_the_words_of_obstore_and_of_what_is_built_on_it(nothing: str) -> None:
    store = S3Store(
        "lakes",
        endpoint=nothing,
        access_key_id="key",
        secret_access_key="secret",  # noqa: S106  # of no server
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=1)},
    )
    with pytest.raises(BaseError) as caught:
        obstore.head(store, "one")
    assert is_silent_store(str(caught.value))
    found = absence(OSError(str(caught.value)))
    assert isinstance(found, StoreAwayError)
    assert nothing in found.message
    assert "\n" not in found.message


def test_the_words_of_hadoop_inside_an_error_of_sparks() -> None:
    text = """Job aborted.
=== Streaming Query ===
java.net.ConnectException: Unable to execute HTTP request: Connect to 127.0.0.1:1 failed: Connection refused (SDK Attempt Count: 6)
\tat org.apache.hadoop.fs.s3a"""
    found = absence(RuntimeError(text))
    assert isinstance(found, StoreAwayError)
    assert found.message.endswith("Connection refused (SDK Attempt Count: 6)")
    assert "=== Streaming" not in reason(text)


def test_a_missing_object_is_no_outage() -> None:
    assert absence(FileNotFoundError("No such file or directory: s3a://lakes/one")) is None


def test_a_heartbeat_may_be_skipped_meanwhile() -> None:
    with skipped_in_outage():
        raise StoreAwayError("connection refused", "s3a://lakes/one")
