"""silver.user_confirmations has the events that are whole, of the declared types, in time and no copies."""

import pytest
from pyspark.sql import SparkSession
from strandline import Scenarios

from fleet.silver.user_confirmations import TABLE
from tests.support.sources import judged_as_the_truth

CONFIRMATION = {"confirmation_id": "c1", "action_id": "a1", "user_id": "u1", "method": "totp"}


@pytest.mark.whole
def test_one_that_is_whole_is_a_row_once(stream: Scenarios) -> None:
    """Field by field, so that a name that was mixed up is seen."""
    s = stream(TABLE)

    s.send({**CONFIRMATION, "event_at": "2026-11-20T08:15:30.123Z"}, at="08:15:31")
    s.duplicate("c1")

    s.expect(
        rows=[{**CONFIRMATION, "event_at": "08:15:30.123"}],
        quarantined={},
        ledger={"read": 2, "duplicates": 1},
    )


def test_every_kind_of_dirt_gets_its_reason(spark: SparkSession) -> None:
    """To the last event, against code that shares nothing with the table."""
    assert judged_as_the_truth(spark, TABLE)
