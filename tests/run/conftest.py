"""A broker for the tests of this folder, and a topic for each test."""

from collections.abc import Iterator
from secrets import token_hex

import pytest

from jobs.core.table import Topic
from jobs.run.broker import down, up


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a broker and return its address."""
    lake = tmp_path_factory.mktemp("kafka")
    yield up(lake).address
    down(lake)


@pytest.fixture
def topic() -> Topic:
    """Return a topic that no other test knows."""
    return Topic(name=f"t-{token_hex(4)}", partitions=2)
