"""`resume` keeps the options of the last start that are not given again."""

import pytest

from strandline.engine.service.background_stream import merged

LAST = ("bronze.a", "silver.a", "--every", "5s", "--max-offsets", "100")


@pytest.mark.whole
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ((), LAST),
        (("--every", "1s"), ("bronze.a", "silver.a", "--every", "1s", "--max-offsets", "100")),
        (("--max-offsets", "5"), ("bronze.a", "silver.a", "--every", "5s", "--max-offsets", "5")),
        (("--max-offsets", "auto"), ("bronze.a", "silver.a", "--every", "5s")),
        (("silver.b",), ("silver.b", "--every", "5s", "--max-offsets", "100")),
    ],
)
def test_each_option_is_remembered_on_its_own(
    asked: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    assert merged(LAST, asked) == wanted


def test_all_tables_are_asked_for_explicitly() -> None:
    assert merged(LAST, (), everything=True) == LAST[2:]


def test_the_first_time_there_is_nothing_to_remember() -> None:
    assert merged((), ()) == ()
    assert merged((), ("--every", "1s")) == ("--every", "1s")
