"""A lock keeps a second holder out, shows the note of the first, and ends with it."""

from pathlib import Path

import pytest

from jobs.engine.storage.file_lock import HeldError, hold, note_of_holder
from jobs.engine.storage.place import Place


def test_a_second_holder_is_refused_with_the_word_of_the_first(tmp_path: Path) -> None:
    """The note is what the holder wrote, also where it is shorter than an earlier one."""
    lock = Place.of(tmp_path) / "locks" / "lock"
    with hold(lock, "a long note of an earlier holder"):
        pass

    with hold(lock, "first"):
        with pytest.raises(HeldError) as refused, hold(lock, "second", waits=False):
            pass
        assert refused.value.note == "first"
        assert note_of_holder(lock) == "first"

    with hold(lock, waits=False):
        assert note_of_holder(lock) == ""


def test_a_free_lock_has_no_note(tmp_path: Path) -> None:
    """Whether its file exists or not."""
    lock = Place.of(tmp_path) / "lock"

    assert note_of_holder(lock) is None
    with hold(lock, "gone"):
        pass
    assert note_of_holder(lock) is None


def test_looking_does_not_release_a_lock_of_the_same_process(tmp_path: Path) -> None:
    """As closing a second handle would with a lock of POSIX."""
    lock = Place.of(tmp_path) / "lock"

    with hold(lock, "mine"):
        assert note_of_holder(lock) == "mine"
        assert note_of_holder(lock) == "mine"
