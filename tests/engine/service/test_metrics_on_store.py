"""The figures of a lake on an object store: the same as of a copy on a disk, for few requests a look and none a scrape."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from strandline.engine.accounting.table_books import close
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import take
from strandline.engine.service.metrics_page import LakeLook
from tests.engine.written import BRONZE, GOLD, SILVER
from tests.support.counted_requests import Requests, counting
from tests.support.ledgers import histories, made
from tests.support.s3_server import S3Server
from tests.support.watched_lake import look, values, watched_lake

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
TABLES = (BRONZE, SILVER, GOLD)
OF_THE_MACHINE = ("strandline_look_", "strandline_free_bytes", "strandline_lease_")


@contextmanager
def counted(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    """Count the requests to the server."""
    with counting(s3.address) as requests:
        monkeypatch.setenv("AWS_ENDPOINT_URL", requests.address)
        yield requests


def total(requests: Requests) -> int:
    return sum(requests.all().values())


def copied(lake: Lake, to: Place) -> Lake:
    """Copy the files of a lake to a bucket."""
    for file in lake.root.files():
        (to / file.below(lake.root)).put_bytes(file.bytes() or b"")
    return Lake(to)


def idle(page: LakeLook, requests: Requests) -> int:
    """Return how many requests a look has that finds nothing new."""
    page.look()
    before = total(requests)
    page.look()
    return total(requests) - before


def test_the_figures_are_those_of_a_copy_on_a_disk_and_a_scrape_asks_for_nothing(
    s3: S3Server, bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = watched_lake(tmp_path / "lake", NOW)
    with counted(s3, monkeypatch) as requests:
        store = copied(disk, bucket)
        held = take(store.lease_of(SILVER.id))
        assert held is not None
        page = look(store, NOW)
        before = total(requests)
        text = [page.text() for _ in range(10)][-1]
        asked = total(requests) - before
        held.release()

    assert asked == 0
    assert f'strandline_lease_holders_total{{role="writer",table="{SILVER.id}"}} 1.0' in text
    of_store, of_disk = values(page), values(look(disk, NOW))
    wanted = {key for key in of_disk if not key[0].startswith(OF_THE_MACHINE)}
    assert {key: of_store.get(key) for key in wanted} == {key: of_disk[key] for key in wanted}


@pytest.mark.whole
def test_a_look_has_as_many_requests_after_a_long_history_as_after_a_short_one(
    s3: S3Server, bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two a table for what is new, and some for what all tables share."""
    found = []
    for commits in (3, 60):
        lake = Lake(tmp_path / str(commits))
        made(lake, histories(commits, Random(1)))  # noqa: S311  # a test's own
        close(lake, TABLES, every=1)
        with counted(s3, monkeypatch) as requests:
            store = copied(lake, bucket / str(commits))
            found.append(idle(look(store, NOW), requests))

    short, long = found
    assert short == long <= 80, found
