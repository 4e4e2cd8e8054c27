"""The client of an object store: one a bucket and process, how long it is patient, and what its refusals mean.

Why obstore and not fsspec or boto3: fsspec hides conditions, and obstore is the client that delta-rs has as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.fsspec import FsspecStore
from obstore.store import S3Store

from strandline.engine.runtime.addresses import StoreOptions
from strandline.engine.runtime.settings import S3A, store_options
from strandline.engine.runtime.store_away import (
    KEYS,
    KeysRefusedError,
    StoreAwayError,
    StoreRefusesError,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig  # they have no names at run time

PATIENCE: "RetryConfig" = {
    # The number alone ended it after two seconds: the pauses are drawn, and the first are short.
    "max_retries": 1_000,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"max_backoff": timedelta(seconds=2)},
}
"""How long a request is repeated that the store does not answer; then its caller decides."""


BRIEF = timedelta(seconds=3)
"""The same for a question of a person, who wants to know within seconds that the store is away."""


CLIENT: "ClientConfig" = {}
"""What else each client has."""


def be_brief() -> None:
    """Wait for a store that does not answer for as long as a person does; called before the first request.

    For questions that read small files alone: a store may accept a connection and be silent, so each request has the limit.
    """
    PATIENCE["retry_timeout"] = BRIEF
    CLIENT["connect_timeout"] = BRIEF
    CLIENT["timeout"] = BRIEF


def refuse_silent(path: str) -> None:
    """Ask a store for one object, which takes no longer than a person waits.

    A limit on each request would end the download of a large log, and without one a store that takes a connection and is
    silent holds the first request for half a minute.

    Raises:
        StoreAwayError: It does not answer.
    """
    bucket, _, key = path.partition("/")
    limits: ClientConfig = {"connect_timeout": BRIEF, "timeout": BRIEF}
    store = S3Store(
        bucket,
        client_options={"allow_http": store_options().is_plain, **limits},
        retry_config={**PATIENCE, "retry_timeout": BRIEF},
    )
    with asked(path), suppress(FileNotFoundError):
        obstore.head(store, key)


def bucket_of(name: str) -> S3Store:
    """Return the client of a bucket; one a process, which keeps its connections."""
    return _client(name, store_options())


@cache
def _client(name: str, options: StoreOptions) -> S3Store:
    return S3Store(
        name,
        client_options={"allow_http": options.is_plain, **CLIENT},
        retry_config=PATIENCE,
    )


@cache
def file_system() -> FsspecStore:
    """Return the store as DuckDB reads it: through a file system of Python, since its own extension is not bundled."""
    return FsspecStore(
        "s3a", client_options={"allow_http": store_options().is_plain}, retry_config=PATIENCE
    )


@contextmanager
def asked(path: str, *, writes: bool = False) -> Iterator[None]:
    """Say what the reader does about a refusal of the store.

    Args:
        path: What is asked for.
        writes: Whether it is written, which shows that the keys work.

    Raises:
        KeysRefusedError: It refuses the credentials.
        StoreRefusesError: It does, and has taken them before, some minutes ago.
        StoreAwayError: It does not answer.
    """
    KEYS.asked()
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        if KEYS.refused():
            raise StoreRefusesError(_first_line(error), f"{S3A}://{path}") from error
        raise KeysRefusedError("", f"{S3A}://{path}") from error
    except BaseError as error:
        raise StoreAwayError(_first_line(error), f"{S3A}://{path}") from error
    if writes:
        KEYS.worked()


def _first_line(error: BaseError) -> str:
    return str(error).partition("\n")[0][:300]
