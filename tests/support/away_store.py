"""Object stores that are away: one that takes connections and is silent, and a port that nothing listens at."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LAKE = "s3a://a-bucket/lake"


@contextmanager
def silent() -> Iterator[int]:
    """Accept connections and never answer, as a store does behind a firewall that drops what it says."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listens:
        yield int(listens.getsockname()[1])


@contextmanager
def closed() -> Iterator[int]:
    """Keep a port that nothing listens at."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield int(kept.getsockname()[1])


def environment(port: int, folder: Path) -> dict[str, str]:
    """Return the settings with which a store is asked for at a port; what a program keeps on this machine is in a folder."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "eu-west-1",
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
    }
