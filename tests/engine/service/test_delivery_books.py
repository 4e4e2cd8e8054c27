"""What is stored about a receiver survives being stored, and is refused where it cannot be read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.alerting.alert_rule import Severity
from strandline.alerting.courier import Books, books
from strandline.alerting.notice import Alert, RuleWords, notice
from strandline.core.errors import DataError
from strandline.engine.lake.place import Place
from tests.support.rows import NOON

NUMBERS = st.integers(0, 50)


def alert(number: int) -> Alert:
    sample = {"alert_id": str(number), "place": f"p/0/{number}", "event": '\u2028\ud7ff"'}
    return Alert(
        id=str(number),
        rule=f"r{number % 3}",
        version="v",
        severity=Severity.LOW,
        at=NOON,
        sample=sample,
    )


@pytest.mark.whole
@given(sent=st.lists(NUMBERS), waiting=st.lists(NUMBERS), offset=NUMBERS)
def test_books_are_read_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, sent: list[int], waiting: list[int], offset: int
) -> None:
    found = Books(receiver="r", topic="t", offsets={0: offset, 7: 1}, noticed={"r": NOON})
    for number in sent:
        found.add(alert(number))
    for rule in list(found.digests):
        found.outbox[rule] = notice(found.digests.pop(rule), "r", RuleWords())
    for number in waiting:
        found.add(alert(number))
    place = Place.of(tmp_path_factory.mktemp("books") / "r.json")
    place.put(found.text())

    again, tag = books(place, "another name")

    assert place.exchange("as it was read", tag)
    assert again == found
    assert again.waiting == len(sent) + len(waiting)


def test_a_receiver_without_books_has_new_ones(tmp_path: Path) -> None:
    assert books(Place.of(tmp_path / "none"), "r") == (Books(receiver="r"), None)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"receiver": "r", "offsets": {"x": 1}}'])
def test_books_that_cannot_be_read_are_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    """To begin anew by itself would deliver nothing of what waits."""
    place = Place.of(tmp_path / "r.json")
    place.put(text)

    with pytest.raises(DataError, match="cannot be read") as refused:
        books(place, "r")

    assert "remove it" in refused.value.hint
