"""silver.user_confirmations has the events that are whole, of the declared types, in time and no copies."""

import pytest
from pyspark.sql import SparkSession

from fleet.silver.user_confirmations import TABLE
from tests.support.read import read
from tests.support.sources import judged_as_the_truth

CLEAN = b'{"confirmation_id": "c1", "action_id": "a1", "user_id": "u1", "method": "totp", "event_at": "2026-11-20T08:15:30Z"}'


@pytest.mark.whole
def test_a_clean_payload_is_a_row(spark: SparkSession) -> None:
    """Field by field, so that a name that was mixed up is seen."""
    (row,) = read(spark, TABLE, CLEAN)

    assert row == {
        "_problem": "-",
        "confirmation_id": "c1",
        "action_id": "a1",
        "user_id": "u1",
        "method": "totp",
        "event_at": "08:15:30",
    }


def test_every_kind_of_dirt_gets_its_reason(spark: SparkSession) -> None:
    """To the last event, against code that shares nothing with the table."""
    assert judged_as_the_truth(spark, TABLE)
