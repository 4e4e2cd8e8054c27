"""A log-in is confirmed by what its user sends within two minutes, and emitted as unconfirmed when that is sure."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from strandline import Scenarios

from fleet.gold.confirmed_logins import TABLE
from fleet.silver import user_actions, user_confirmations
from tests.support.literal import TWO, WAYS, in_every_way
from tests.support.rows import Row, rows

ACTION: StructType = user_actions.FIELDS
CONFIRMATION: StructType = user_confirmations.FIELDS
LOGIN = {"user_id": "u1", "action": "login", "device_id": "d1"}
SHOWN = ("action_id", "confirmation_id", "is_confirmed")


def emitted(
    spark: SparkSession,
    root: Path,
    actions: str,
    confirmations: str,
    ways: Sequence[str] = TWO,
) -> list[Row]:
    log = {
        user_actions.TABLE: (ACTION, actions),
        user_confirmations.TABLE: (CONFIRMATION, confirmations),
    }
    found = in_every_way(spark, root, TABLE, log, ways=ways)
    return sorted(({name: row[name] for name in SHOWN} for row in found), key=str)


@pytest.mark.slow
def test_a_login_and_its_second_factor_meet_within_two_minutes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The last of the two minutes counts, a microsecond later does not, and neither does an earlier one.

    Confirmations come in the batch of their log-in, in a later one, and before it. Action i is no log-in, and
    the user of the confirmation of h is another. Clocks at the end move both watermarks to 10:45, one of them a
    log-out, which the table leaves out and time does not.
    """
    found = emitted(
        spark,
        tmp_path,
        """
        batch | action_id | user_id | action | event_at
        1     | a         | u1      | login  | 09:00:00
        1     | b         | u1      | login  | 09:00:00
        1     | c         | u1      | login  | 09:00:00
        1     | d         | u2      | login  | 09:10:00
        1     | h         | u2      | login  | 09:11:00
        1     | i         | u2      | logout | 09:12:00
        2     | e         | u3      | login  | 09:20:00
        2     | f         | u3      | login  | 09:21:00
        3     | clock     | u9      | logout | 12:00:00
        """,
        """
        batch | confirmation_id | action_id | user_id | event_at
        1     | ca              | a         | u1      | 09:02:00
        1     | cb              | b         | u1      | 09:02:00.000001
        1     | cc              | c         | u1      | 08:59:59.999999
        1     | ce              | e         | u3      | 09:20:30
        2     | cd              | d         | u2      | 09:10:20
        2     | ch              | h         | u9      | 09:11:20
        2     | ci              | i         | u2      | 09:12:20
        3     | clock           | none      | u9      | 12:00:00
        """,
        WAYS,
    )

    assert found == rows("""
        action_id | confirmation_id | is_confirmed
        a         | ca              | True
        b         | -               | False
        c         | -               | False
        d         | cd              | True
        e         | ce              | True
        f         | -               | False
        h         | -               | False
    """)


@pytest.mark.whole
@pytest.mark.slow
def test_an_unconfirmed_login_is_emitted_to_the_millisecond_when_it_is_sure(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The slower source decides: its newest event at 11:17 less 75 minutes is 10:02, so 10:00 is open still.

    A log-in a millisecond and more before 10:00 is final, and one less than that before it is not.
    """
    found = emitted(
        spark,
        tmp_path,
        """
        batch | action_id | user_id | action | event_at
        1     | before    | u1      | login  | 09:59:59.999
        1     | nearly    | u1      | login  | 09:59:59.999001
        1     | at        | u1      | login  | 10:00:00
        2     | clock     | u1      | login  | 12:00:00
        """,
        """
        batch | confirmation_id | action_id | user_id | event_at
        1     | x               | none      | u9      | 10:00:00
        2     | y               | none      | u9      | 11:17:00
        """,
    )

    assert [row["action_id"] for row in found] == ["before"]


@pytest.mark.whole
def test_nothing_is_sure_while_one_side_is_empty(stream: Scenarios) -> None:
    """Confirmations that have not come at all may be delayed as a whole."""
    s = stream(TABLE)

    s.send({"action_id": "a", **LOGIN}, at="09:00:00", topic="user-actions")
    s.advance("3 hours")

    s.expect(rows=[])


@pytest.mark.whole("batch", "catch-up")
@pytest.mark.slow
def test_a_process_that_dies_emits_a_login_once(stream: Scenarios) -> None:
    """The confirmation is read, its row is committed, and Spark has not noted it."""
    s = stream(TABLE)
    answer = {"confirmation_id": "ca", "action_id": "a", "user_id": "u1", "method": "app"}

    s.send({"action_id": "a", **LOGIN}, at="09:00:00", topic="user-actions")
    s.stop_at("committed")
    s.send(answer, at="09:01:00", topic="user-confirmations")
    s.restart_with()
    s.duplicate("ca")

    s.expect(rows=[{"action_id": "a", "confirmation_id": "ca", "is_confirmed": True}])
