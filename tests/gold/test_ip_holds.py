"""An address is held by one device at a time, from the message that gave it to the one that took it, or to its end."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from pyspark.sql.streaming.tws_tester import TwsTester

from fleet.gold.ip_holds import FOLD, TABLE
from fleet.silver import dhcp_events
from strandline.core.fold import Event, InMemory, Shell
from tests.support.literal import in_every_way
from tests.support.rows import Row, rows
from tests.support.shapes import arrived

MESSAGE = arrived(dhcp_events.FIELDS)
SHOWN = ("ip", "held_from", "held_until", "ended_by", "device_id", "renewals")
SECOND = 1_000_000


def emitted(spark: SparkSession, root: Path, messages: str) -> list[Row]:
    """Return the holds that a log of messages makes, the same in every way."""
    found = in_every_way(spark, root, TABLE, {dhcp_events.TABLE: (MESSAGE, messages)})
    return sorted(({name: row[name] for name in SHOWN} for row in found), key=str)


@pytest.mark.whole
@pytest.mark.slow
def test_a_hold_ends_by_release_decline_expiry_or_by_being_handed_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Messages come in three commits and not in their order; a discover at the end moves the watermark to 12:45.

    The ack of 09:30 comes a commit after the renewal of 10:00, and yet it is where that hold begins. Offers, the
    release by another device and a second release change nothing; the hold of 12:50 is not settled yet.
    """
    found = emitted(
        spark,
        tmp_path,
        """
        batch | dhcp_id | kind     | mac | device_id | ip | lease_seconds | event_at | _arrived_at | _partition | _offset
        1     | 1       | discover | m1  | d1        | -  | -             | 09:00:00 | 09:00:00    | 0          | 1
        1     | 2       | offer    | m1  | d1        | a  | 3600          | 09:00:01 | 09:00:01    | 0          | 2
        1     | 3       | ack      | m1  | d1        | a  | 3600          | 09:00:02 | 09:00:02    | 0          | 3
        1     | 4       | release  | m2  | d2        | a  | -             | 09:05:00 | 09:05:00    | 0          | 4
        1     | 5       | release  | m1  | d1        | a  | -             | 09:10:00 | 09:10:00    | 0          | 5
        1     | 6       | release  | m1  | d1        | a  | -             | 09:11:00 | 09:11:00    | 0          | 6
        1     | 7       | ack      | m3  | d3        | b  | 3600          | 09:20:00 | 09:20:00    | 1          | 1
        1     | 8       | renew    | m4  | d4        | c  | 3600          | 10:00:00 | 10:00:00    | 1          | 2
        2     | 9       | ack      | m4  | d4        | c  | 3600          | 09:30:00 | 10:05:00    | 1          | 3
        2     | 10      | ack      | m5  | d5        | d  | 7200          | 10:10:00 | 10:10:00    | 1          | 4
        2     | 11      | ack      | m6  | d6        | d  | 7200          | 10:40:00 | 10:40:00    | 1          | 5
        2     | 12      | decline  | m6  | d6        | d  | -             | 10:41:00 | 10:41:00    | 1          | 6
        2     | 13      | ack      | m7  | d7        | e  | 36000         | 10:42:00 | 10:42:00    | 1          | 7
        2     | 16      | ack      | m9  | d9        | g  | 3600          | 10:50:00 | 10:50:00    | 1          | 10
        3     | 14      | ack      | m8  | d8        | f  | 36000         | 12:50:00 | 12:50:00    | 1          | 8
        3     | 15      | discover | m9  | d9        | -  | -             | 14:00:00 | 14:00:00    | 1          | 9
        """,
    )

    assert found == rows("""
        ip | held_from | held_until | ended_by | device_id | renewals
        a  | 09:00:02  | 09:10:00   | released | d1        | 0
        b  | 09:20:00  | 10:20:00   | expired  | d3        | 0
        c  | 09:30:00  | 11:00:00   | expired  | d4        | 1
        d  | 10:10:00  | 10:40:00   | taken    | d5        | 0
        d  | 10:40:00  | 10:41:00   | declined | d6        | 0
        e  | 10:42:00  | -          | -        | d7        | 0
        g  | 10:50:00  | 11:50:00   | expired  | d9        | 0
    """)


def message(second: int, kind: str, mac: str, *, lease: int = 60, ip: str = "a") -> Event:
    return {
        "ip": ip,
        "at": second * SECOND,
        "kind": kind,
        "mac": mac,
        "device_id": mac.replace("m", "d"),
        "lease_seconds": lease,
        "arrived": second * SECOND,
        "_partition": 0,
        "_offset": second,
    }


def holds(messages: Sequence[Event], chance: random.Random, *, cuts: int) -> dict[int, Any]:
    """Fold messages in pieces with the watermark at any distance behind; return the last answer for each hold."""
    text, pieces = None, InMemory()
    answers: dict[int, Any] = {}
    edges = sorted(chance.sample(range(1, len(messages)), k=cuts)) if cuts else []
    for start, end in zip([0, *edges], [*edges, len(messages)], strict=True):
        rest = [each["at"] for each in messages[end:]]
        settled = min([*rest, 10**9 * SECOND]) - 1
        piece = list(messages[start:end])
        memory = FOLD.recall(text, pieces)
        answers |= {each["held_us"]: each for each in FOLD.step(memory, piece, settled).answers}
        text = memory.text()
    assert text is None
    return answers


@pytest.mark.whole
def test_any_cut_of_any_order_within_the_watermark_gives_the_same_holds(
    chance: random.Random,
) -> None:
    """Random messages of three devices about one address, a hundred times."""
    for _ in range(100):
        kinds = ("ack", "renew", "release", "decline")
        log = [
            message(second, chance.choice(kinds), f"m{chance.randrange(3)}")
            for second in sorted(chance.sample(range(600), k=40))
        ]
        expected = holds(log, chance, cuts=0)
        disordered = sorted(log, key=lambda each: each["at"] + chance.uniform(0, 90) * SECOND)

        assert holds(disordered, chance, cuts=chance.randrange(1, 12)) == expected


def test_the_shell_wakes_when_a_lease_is_over_and_forgets() -> None:
    """With Spark's tester of processors: no row comes, time alone ends the hold, and no state is left."""
    tester = TwsTester(
        Shell(FOLD),
        timeMode="EventTime",
        outputMode="Update",
        eventTimeExtractor=lambda row: int(row.at // 1000),
    )
    names = ("ip", *FOLD.reads, "at")
    first = message(100, "ack", "m1")
    tester.setWatermark(50_000)

    opened = tester.test("a", [SparkRow(**{name: first[name] for name in names})])
    assert opened == []

    (held,) = emitted_at(tester, 120_000)
    assert (held["device_id"], held["until_us"]) == ("d1", None)
    assert emitted_at(tester, 159_999) == []
    (ended,) = emitted_at(tester, 160_000)
    assert (ended["ended_by"], ended["until_us"]) == ("expired", 160 * SECOND)
    assert tester.peekValueState("kept", "a") is None


def emitted_at(tester: TwsTester, watermark: int) -> list[dict[str, Any]]:
    """Move the watermark and return what is emitted because of it."""
    found: Any = tester.setWatermark(watermark)
    return [row.asDict() for row in found]
