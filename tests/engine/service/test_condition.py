"""What is wrong is said of the program that it is wrong with."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline.engine.service.condition import condition
from strandline.engine.service.stream_health import Order, write_desired
from tests.support.watched_lake import FEED, watched_lake

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"alive": False}, "is not running"),
        ({"at": (NOW - timedelta(minutes=40)).isoformat()}, "has written no heartbeat for"),
        ({}, "rows to read and committed none for"),
    ],
    ids=["dead", "silent", "stuck"],
)
def test_what_is_wrong_with_the_alerts_names_their_process(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    """The sentence was that of the stream, which a person then restarted, and it was well."""
    lake, long_ago = watched_lake(tmp_path, NOW), (NOW - timedelta(minutes=40)).isoformat()
    beat = json.loads(lake.feeds_beat.text() or "")
    beat["tables"][FEED].update(behind=long_ago)
    lake.feeds_beat.put(json.dumps({**beat, **change}))
    write_desired(lake, Order(runs=True, at=long_ago, by="on-call"), lake.alerts_order)

    found = [each.says for each in condition(lake, NOW).troubles if says in each.says]

    assert [each.partition(":")[0] for each in found] == ["alerts"]
