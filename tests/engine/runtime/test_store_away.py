"""A store that does not answer is an outage: each client's own words for it are recognised."""

import socket
from datetime import timedelta

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from strandline.core.errors import DefinitionError
from strandline.engine.runtime import outage
from strandline.engine.runtime.outage import (
    PATIENCE,
    QUIET,
    Keys,
    KeysRefusedError,
    StoreAwayError,
    StoreRefusesError,
    absence,
    is_silent_store,
    reason,
    skipped_in_outage,
)
from strandline_infra.programs import HOST


@pytest.fixture
def nothing() -> str:
    """Return the address of a port at which no program listens."""
    with socket.create_server((HOST, 0)) as server:
        return f"http://{HOST}:{server.getsockname()[1]}"


@pytest.mark.whole
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


OF_CLOUDS = {
    "google": """An error occurred while calling o1.save.
: java.io.IOException: Having issue while listing files from offset: lake/_delta_log/1. for bucket: lakes
\tat com.google.cloud.hadoop.repackaged.gcs.com.google.cloud.hadoop.gcsio.GoogleCloudStorageImpl.listObjectInfoStartingFrom
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)""",
    "azure": """An error occurred while calling o1.save.
: Status code: -1 error code: null error message: java.net.ConnectException: Connection refused
\tat org.apache.hadoop.fs.azurebfs.services.AbfsRestOperation.executeHttpOperation""",
    "busy": """: Operation failed: "The server is busy.", 503, GET, …
\tat org.apache.hadoop.fs.azurebfs.services.AbfsRestOperation.completeExecute""",
}


@pytest.mark.parametrize("kind", OF_CLOUDS)
def test_the_words_of_the_clients_of_google_and_of_azure_in_the_jvm(kind: str) -> None:
    """As they were when a server was killed under a driver (the last one by its documentation)."""
    found = absence(RuntimeError(OF_CLOUDS[kind]))

    assert isinstance(found, StoreAwayError)
    assert "\n" not in found.message


@pytest.mark.parametrize(
    "text",
    [
        "java.io.IOException: GoogleJsonResponseException: 403 Forbidden",
        'java.nio.file.AccessDeniedException: Operation failed: "Server failed to authenticate the request.", 403, HEAD, …',
        "Generic MicrosoftAzure error: Error performing GET: 403 Forbidden",
    ],
)
def test_refusals_of_google_and_of_azure_are_those_of_keys(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "KEYS", Keys())
    outage.KEYS.asked()

    found = outage.denied(RuntimeError(text))

    assert isinstance(found, KeysRefusedError)
    assert "AZURE_STORAGE_ACCOUNT_KEY" in found.hint


def test_a_missing_object_is_no_outage() -> None:
    assert absence(FileNotFoundError("No such file or directory: s3a://lakes/one")) is None


def test_a_heartbeat_may_be_skipped_meanwhile() -> None:
    with skipped_in_outage():
        raise StoreAwayError("connection refused", "s3a://lakes/one")


REFUSAL = """Job aborted.
java.nio.file.AccessDeniedException: s3a://lakes/one: getFileStatus on s3a://lakes/one: S3Exception: null (Status Code: 403)
\tat org.apache.hadoop.fs.s3a"""


def test_keys_that_worked_are_waited_for_and_keys_that_never_did_are_a_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outage, "KEYS", Keys())
    outage.KEYS.asked()
    never = outage.absence(RuntimeError(REFUSAL)), outage.denied(RuntimeError(REFUSAL))
    outage.KEYS.worked()
    found = outage.absence(RuntimeError(REFUSAL))

    assert never[0] is None
    assert isinstance(never[1], DefinitionError)
    assert "chmod" not in never[1].hint
    assert isinstance(found, StoreRefusesError)
    assert "refuses the keys that it took before" in found.message


def test_a_refusal_is_waited_for_some_minutes_though_other_requests_are_taken() -> None:
    now = [0.0]
    keys = Keys(lambda: now[0])
    keys.worked()
    waited = 0.0
    while keys.refused():
        keys.worked()
        now[0] += QUIET / 4
        waited = now[0]
        assert waited <= PATIENCE
    now[0] += QUIET + 1

    assert waited == PATIENCE
    assert keys.refused(), "a refusal after a time without any is another one"


@pytest.mark.whole
def test_what_a_row_of_a_log_says_is_no_word_of_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of Spark cite values; on a disk no store was asked at all."""
    cited = "[CAST_INVALID_INPUT] The value 'GET /login 403 Forbidden ExpiredToken' of the type STRING cannot be cast"
    monkeypatch.setattr(outage, "KEYS", Keys())
    on_a_disk = outage.denied(RuntimeError(cited)), outage.absence(RuntimeError(REFUSAL))
    outage.KEYS.worked()

    assert on_a_disk == (None, None)
    assert outage.denied(RuntimeError(cited)) is None
    assert outage.absence(RuntimeError(cited)) is None


def test_the_runbook_finds_the_words_of_each_error() -> None:
    """Of keys that a program never used it said "refuses s3a://…", and the runbook has "refuses the keys"."""
    place = "s3a://lakes/one"
    refused = [StoreRefusesError("403", place), KeysRefusedError("", place), KeysRefusedError("")]

    assert "does not answer" in StoreAwayError("timed out", place).message
    assert all("refuses the keys" in each.message for each in refused)
