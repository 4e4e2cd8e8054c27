"""A lock keeps a second holder out, shows the note of the first, and ends with it."""

import json
import os
import threading
from pathlib import Path

import pytest

from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import HeldError, hold, note_of_holder


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


def test_on_a_store_a_second_holder_is_refused_and_may_wait(
    bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note is the record of its holder, whichever machine that is on."""
    monkeypatch.setenv("STRANDLINE_LEASE", "1")
    lock = bucket / "lock"
    order = []

    def wait() -> None:
        with hold(lock):
            order.append("second")

    other = threading.Thread(target=wait)
    with hold(lock):
        assert json.loads(note_of_holder(lock) or "")["pid"] == os.getpid()
        with pytest.raises(HeldError) as refused, hold(lock, waits=False):
            pass
        assert json.loads(refused.value.note)["pid"] == os.getpid()
        other.start()
        order.append("first")
    other.join()

    assert order == ["first", "second"]
    assert note_of_holder(lock) is None


@pytest.mark.whole
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
