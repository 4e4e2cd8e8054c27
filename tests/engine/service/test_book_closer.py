"""Books are closed while a stream runs; an error is kept for its log and ends nothing."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from strandline.engine.accounting.table_books import Closed, close
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger_sums import snapshot_file
from strandline.engine.service import backlog
from strandline.engine.service.backlog import BookCloser
from tests.engine.written import BRONZE
from tests.support.ledgers import histories, made


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake with more commits than books stay open for."""
    lake = Lake(tmp_path)
    made(lake, histories(1_200, Random(5)))  # noqa: S311  # a test's own
    return lake


@pytest.fixture
def closer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[BookCloser]:
    """Return a closer that looks all the time."""
    monkeypatch.setattr(backlog, "PAUSE", 0.01)
    closer = BookCloser(partial(close, lake, [BRONZE]))
    yield closer
    closer.end()
    closer.join()


def first(closer: BookCloser) -> Closed | Exception:
    pause = threading.Event()
    for _ in range(1_000):
        if found := closer.news():
            return found[0]
        pause.wait(0.02)
    raise AssertionError("no news")


@pytest.mark.whole
def test_what_was_closed_is_reported_once(closer: BookCloser, lake: Lake) -> None:
    """The log of a stream has a record for each close, and no other."""
    closer.start()
    found = first(closer)

    assert isinstance(found, Closed)
    assert (found.table, found.entries) == (BRONZE.id, 1_200)
    assert snapshot_file(lake.table(BRONZE)).exists()
    assert closer.news() == []


def test_an_error_is_reported_and_the_next_look_closes(closer: BookCloser, lake: Lake) -> None:
    """Here a folder is in the place of the snapshot."""
    file = snapshot_file(lake.table(BRONZE))
    file.make()
    closer.start()
    assert isinstance(first(closer), OSError)
    file.remove()

    found = first(closer)
    while isinstance(found, OSError):
        found = first(closer)

    assert isinstance(found, Closed)
