"""A lease on an object store has one holder, who renews it; one that is silent is replaced, and is refused from then on."""

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobs.engine.runtime.holders import started
from jobs.engine.storage import object_files
from jobs.engine.storage.place import Place
from jobs.engine.storage.store_lease import FencedError, StoreLease, holder, take, take_again

LIFE = 1.0
MANY = 20


def test_of_many_at_once_one_holds_it(bucket: Place) -> None:
    """The others see that it is renewed."""
    with ThreadPoolExecutor(MANY) as pool:
        found = [*pool.map(lambda _: _taken(bucket / "a.lock"), range(MANY))]

    held = [each for each in found if each]
    assert len(held) == 1
    held[0].refuse_lost()
    held[0].release()


def test_one_that_was_released_is_free_at_once(bucket: Place) -> None:
    """The epoch goes on, and no commit of the former holder need be refused."""
    first = _taken(bucket / "a.lock")
    assert first is not None
    first.release()

    second = _taken(bucket / "a.lock")

    assert second is not None
    assert (second.epoch, second.is_taken_over) == (2, False)
    with pytest.raises(FencedError):
        first.refuse_lost()
    second.release()


def test_one_that_was_released_here_is_taken_again_by_one_request_unless_another_took_it(
    bucket: Place,
) -> None:
    """The server compares the tag, so what another process did meanwhile is never passed over."""
    first = _taken(bucket / "a.lock")
    assert first is not None
    tag = first.release()
    assert tag is not None

    second = take_again(bucket / "a.lock", first.epoch, tag, LIFE)
    assert second is not None
    assert second.epoch == 2
    second.refuse_lost()
    assert take_again(bucket / "a.lock", first.epoch, tag, LIFE) is None
    second.refuse_lost()
    second.release()


@pytest.mark.parametrize("content", [b"", b'{"pid": 1, "host": "another"}'])
def test_a_lock_that_was_copied_from_a_folder_is_free(bucket: Place, content: bytes) -> None:
    """A lake is copied to a store with its files of locks; they say who held them on that machine, or nothing."""
    (bucket / "a.lock").put_bytes(content)

    assert holder(bucket / "a.lock") == {}
    found = _taken(bucket / "a.lock")

    assert found is not None
    assert (found.epoch, found.is_taken_over) == (1, False)
    found.refuse_lost()
    found.release()


def test_one_whose_holder_is_silent_is_taken_over(bucket: Place) -> None:
    """A suspended process does not renew it; when it goes on, it is refused and changes nothing."""
    silent = take(bucket / "a.lock", LIFE)
    assert silent is not None

    begun = time.monotonic()
    new = _taken(bucket / "a.lock")

    assert time.monotonic() - begun >= LIFE
    assert new is not None
    assert (new.epoch, new.is_taken_over) == (2, True)
    with pytest.raises(FencedError, match="taken over"):
        silent.refuse_lost()
    silent.release()
    new.refuse_lost()
    new.release()


def test_one_whose_holder_has_ended_on_this_machine_is_taken_over_at_once(bucket: Place) -> None:
    """So a start after a kill need not wait."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = {
            "pid": process.pid,
            "host": socket.gethostname(),
            "started": started(process.pid),
            "id": "killed",
        }
        process.kill()
    state = {"owner": owner, "epoch": 7, "beat": 3}
    object_files.create((bucket / "a.lock").path, json.dumps(state).encode())

    assert holder(bucket / "a.lock") == {}
    begun = time.monotonic()
    new = take(bucket / "a.lock", life=60.0)

    assert time.monotonic() - begun < 60.0
    assert new is not None
    assert (new.epoch, new.is_taken_over) == (8, True)


def _taken(place: Place) -> StoreLease | None:
    held = take(place, LIFE)
    if held is not None:
        held.keep()
    return held
