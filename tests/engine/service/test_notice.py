"""A notice has the alerts of one rule; what is no alert is refused with its reason."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME

from strandline.alerting.notice import (
    LONGEST,
    SAMPLES,
    Alert,
    Digest,
    NoAlertError,
    RuleWords,
    notice,
)
from strandline.alerting.tables.silver import FIELDS
from tests.support.notices import alert
from tests.support.rows import NOON


class Record:
    """A record of Kafka with a payload."""

    def __init__(self, payload: bytes | None, raised_at: datetime = NOON) -> None:
        """Have the payload."""
        self._payload, self._raised_at = payload, raised_at

    def value(self) -> bytes | None:
        """Return the payload."""
        return self._payload

    def timestamp(self) -> tuple[int, int]:
        """Return when it was written."""
        return TIMESTAMP_CREATE_TIME, int(self._raised_at.timestamp() * 1000)


def read(payload: bytes | None) -> Alert:
    return Alert.of(Record(payload))  # type: ignore[arg-type]  # a message of the C client cannot be made


def digest(*numbers: int, **fields: object) -> Digest:
    first, *others = (read(json.dumps(alert(n, **fields)).encode()) for n in numbers)
    found = Digest.of(first)
    for each in others:
        found = found.plus(each)
    return found


def test_the_alerts_of_these_tests_have_the_fields_of_real_ones() -> None:
    assert list(alert(0)) == FIELDS.fieldNames()


def test_a_notice_has_the_number_the_times_and_the_first_alerts_of_a_rule() -> None:
    """Also where they came in another order than that of their events."""
    words = RuleWords(title="Backups deleted", owner="security", runbook="page.md")

    found = notice(digest(5, 2, 9, 3), "webhook-1", words)

    assert found["count"] == 4
    assert found["first_at"] == (NOON + timedelta(seconds=2)).isoformat()
    assert found["last_at"] == (NOON + timedelta(seconds=9)).isoformat()
    assert [each["alert_id"] for each in found["alerts"]] == ["r-5", "r-2", "r-9"]
    assert len(found["alerts"]) == SAMPLES
    assert found["alerts"][0]["place"] == "process-events/0/5"
    assert found["alerts"][0]["event"] == alert(5)["event"]
    assert found["text"].startswith("high: Backups deleted: 4 alerts from 2026-")
    assert found["text"].endswith("runbook: page.md")
    assert json.loads(json.dumps(found)) == found


def test_a_rule_that_no_file_has_is_named_by_its_id_and_has_the_general_runbook() -> None:
    found = notice(digest(1), "webhook-1", RuleWords())

    assert found["title"] == "r"
    assert found["runbook"] == "infra/docs/alert_rules.md#when-a-rule-fires"
    assert found["text"].startswith("high: r: 1 alert at 2026-")


def test_the_id_of_a_notice_follows_from_its_receiver_its_rule_and_its_first_alert() -> None:
    """So that a receiver knows what is sent again, and two receivers behind one address do not mix theirs up."""
    ids = [
        notice(digest(*numbers), receiver, RuleWords())["delivery_id"]
        for numbers, receiver in (((1, 2), "a"), ((1, 3, 4), "a"), ((2, 1), "a"), ((1, 2), "b"))
    ]

    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_a_digest_survives_being_stored() -> None:
    found = digest(1, 2)
    stored: dict[str, Any] = json.loads(
        json.dumps({name: getattr(found, name) for name in found.__slots__}, default=str)
    )
    stored["samples"] = list(found.samples)

    assert Digest.read(stored) == found


def test_an_event_of_a_megabyte_is_shown_in_part() -> None:
    (sample,) = digest(1, event="x" * 10**6).samples

    assert len(sample["event"]) == LONGEST + 1
    assert sample["place"] == "process-events/0/1"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (None, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no JSON object"),
        (json.dumps(alert(1, alert_id="")).encode(), "no alert_id"),
        (json.dumps(alert(1, rule_id=7)).encode(), "no rule_id"),
        (json.dumps(alert(1, rule_id="x" * 201)).encode(), "201 characters"),
        (json.dumps(alert(1, rule_severity="loud")).encode(), "'loud' is not a valid Severity"),
        (json.dumps(alert(1, event_at="soon")).encode(), "'soon'"),
    ],
)
def test_what_is_no_alert_is_refused(payload: bytes | None, reason: str) -> None:
    with pytest.raises(NoAlertError, match=reason):
        read(payload)


def test_an_alert_on_an_old_event_is_from_history() -> None:
    """By the record's own time, so that each reader says the same, whenever it reads."""
    payload = json.dumps(alert(0)).encode()
    for days, is_old in ((-400, False), (7.9, False), (8.1, True), (400, True)):
        record = Record(payload, NOON + timedelta(days=days))
        assert Alert.of(record).from_history is is_old  # type: ignore[arg-type]  # as above
