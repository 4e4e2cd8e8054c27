"""A copy is known within a number of offsets, and one that starts anew knows what its predecessor knew."""

import random

from strandline.alerting.courier import RecentIds


def test_an_id_is_known_for_a_number_of_offsets_in_its_partition() -> None:
    recent = RecentIds(remembered=3)

    asked = [(0, 0, "a"), (0, 1, "b"), (1, 2, "a"), (0, 3, "a"), (0, 6, "a"), (0, 10, "a")]

    assert [recent.is_copy(*each) for each in asked] == [False, False, False, True, True, False]


def test_nothing_older_is_kept() -> None:
    recent = RecentIds(remembered=100)
    for offset in range(10_000):
        assert not recent.is_copy(0, offset, str(offset))

    assert len(recent._ids[0]) <= 101


def test_one_that_starts_at_any_offset_judges_as_one_that_read_all(chance: random.Random) -> None:
    """It reads the last records before its position again."""
    ids = [str(chance.randrange(20)) for _ in range(300)]
    whole = RecentIds(remembered=10)
    judged = [whole.is_copy(0, offset, id_) for offset, id_ in enumerate(ids)]
    start = chance.randrange(10, 290)

    again = RecentIds(remembered=10)
    for offset in range(start - 10, start):
        again.is_copy(0, offset, ids[offset])

    assert [again.is_copy(0, n, ids[n]) for n in range(start, 300)] == judged[start:]
