"""A lease on an object store has one holder, who renews it; one that is silent is replaced, and is refused from then on."""

import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.lake import object_files, store_lease
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import HasWriterError, WriterWatch, is_held
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import FencedError, StoreLease, holder, take, take_again
from strandline.engine.runtime.processes import started
from tests.support.events import TABLE

LIFE = 1.0
MANY = 20


@pytest.mark.whole
def test_of_many_at_once_one_holds_it(in_cloud: Place) -> None:
    """The others see that it is renewed."""
    with ThreadPoolExecutor(MANY) as pool:
        found = [*pool.map(lambda _: _taken(in_cloud / "a.lock"), range(MANY))]

    held = [each for each in found if each]
    assert len(held) == 1
    held[0].refuse_lost()
    held[0].release()


def test_one_that_was_released_is_free_at_once(in_cloud: Place) -> None:
    """The epoch goes on, and no commit of the former holder need be refused."""
    first = _taken(in_cloud / "a.lock")
    assert first is not None
    first.release()

    second = _taken(in_cloud / "a.lock")

    assert second is not None
    assert (second.epoch, second.is_taken_over) == (2, False)
    with pytest.raises(FencedError):
        first.refuse_lost()
    second.release()


def test_one_that_was_released_here_is_taken_again_by_one_request_unless_another_took_it(
    in_cloud: Place,
) -> None:
    """The server compares the tag, so what another process did meanwhile is never passed over."""
    first = _taken(in_cloud / "a.lock")
    assert first is not None
    tag = first.release()
    assert tag is not None

    second = take_again(in_cloud / "a.lock", first.epoch, tag, LIFE)
    assert second is not None
    assert second.epoch == 2
    second.refuse_lost()
    assert take_again(in_cloud / "a.lock", first.epoch, tag, LIFE) is None
    second.refuse_lost()
    second.release()


@pytest.mark.parametrize("content", [b"", b'{"pid": 1, "host": "another"}'])
def test_a_lock_that_was_copied_from_a_folder_is_free(in_cloud: Place, content: bytes) -> None:
    """A lake is copied to a store with its files of locks; they say who held them on that machine, or nothing."""
    (in_cloud / "a.lock").put_bytes(content)

    assert holder(in_cloud / "a.lock") == {}
    found = _taken(in_cloud / "a.lock")

    assert found is not None
    assert (found.epoch, found.is_taken_over) == (1, False)
    found.refuse_lost()
    found.release()


@pytest.mark.whole
def test_one_whose_holder_is_silent_is_taken_over(in_cloud: Place) -> None:
    """A suspended process does not renew it; when it goes on, it is refused and changes nothing."""
    silent = take(in_cloud / "a.lock", LIFE)
    assert silent is not None

    begun = time.monotonic()
    new = _taken(in_cloud / "a.lock")

    assert time.monotonic() - begun >= LIFE
    assert new is not None
    assert (new.epoch, new.is_taken_over) == (2, True)
    with pytest.raises(FencedError, match="taken over"):
        silent.refuse_lost()
    silent.release()
    new.refuse_lost()
    new.release()


def test_one_whose_holder_has_ended_on_this_machine_is_taken_over_at_once(in_cloud: Place) -> None:
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
    object_files.create(str(in_cloud / "a.lock"), json.dumps(state).encode())

    assert holder(in_cloud / "a.lock") == {}
    begun = time.monotonic()
    new = take(in_cloud / "a.lock", life=60.0)

    assert time.monotonic() - begun < 60.0
    assert new is not None
    assert (new.epoch, new.is_taken_over) == (8, True)


def _taken(place: Place) -> StoreLease | None:
    held = take(place, LIFE)
    if held is not None:
        held.keep()
    return held


def _left(place: Place, owner: dict[str, object], **more: object) -> None:
    """Leave a lease whose holder does not renew it."""
    place.put_bytes(json.dumps({"owner": owner, "epoch": 1, "beat": 0, **more}).encode())


def test_a_lease_of_a_pod_that_is_gone_expires_for_those_who_only_look(
    in_cloud: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance looks at the leases of repairs and takes none; it waited for the dead for ever."""
    monkeypatch.setattr(store_lease, "CLOCKS", 0.0)
    place = in_cloud / "silver.a.repair.lock"
    gone = {"pid": 7, "host": "code-gone", "started": 1.0, "id": "x"}
    _left(place, gone, life=LIFE)
    assert is_held(place)
    assert holder(place)["host"] == "code-gone"

    deadline = time.monotonic() + 60
    while is_held(place) and time.monotonic() < deadline:
        time.sleep(0.1)

    assert (is_held(place), holder(place)) == (False, {})
    _left(place, gone)  # of an older version, which does not say its life
    assert is_held(place)


@pytest.mark.parametrize(
    "refusal", [DefinitionError("the object store refuses it", hint="a key"), OSError(5, "odd")]
)
def test_a_refused_renewal_does_not_end_the_renewing(
    in_cloud: Place, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    """A store that refuses a key for a moment (403) ended it: the lease was lost when it had expired, and nothing took it again."""
    held = take(in_cloud / "a.lock", LIFE)
    assert held is not None
    first, refused = held.tag, threading.Event()
    replaces = object_files.replace

    def once(path: str, content: bytes, tag: str) -> str | None:
        if refused.is_set():
            return replaces(path, content, tag)
        refused.set()
        raise refusal

    monkeypatch.setattr(object_files, "replace", once)
    held.keep()

    deadline = time.monotonic() + 60
    while held.tag == first and time.monotonic() < deadline:
        time.sleep(0.05)
    assert refused.is_set()
    assert held.tag != first
    held.refuse_lost()
    held.release()


def test_a_lease_that_was_removed_is_written_again(in_cloud: Place) -> None:
    """By its holder, unless another has taken it: an empty place is no successor."""
    held = take(in_cloud / "a.lock", LIFE)
    assert held is not None
    held.keep()
    (in_cloud / "a.lock").remove()

    deadline = time.monotonic() + 60
    while not holder(in_cloud / "a.lock") and time.monotonic() < deadline:
        time.sleep(0.05)
    held.refuse_lost()
    held.release()


def test_a_writer_of_another_host_is_one_who_renews_its_lease(
    in_cloud: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen by who waits for the table, and named; one that was killed is believed for the life of a lease, and no longer."""
    monkeypatch.setenv("STRANDLINE_LEASE", "1")
    lake = Lake(in_cloud)
    place, gone = lake.lease(TABLE), {"pid": 7, "host": "code-gone", "started": 1.0, "id": "x"}
    watch = WriterWatch(TABLE, lake)
    watch.refuse()
    for beat in range(3):
        _left(place, gone, life=LIFE, beat=beat)
        with pytest.raises(
            HasWriterError, match="has a writer already: process 7 on code-gone, renewed"
        ):
            watch.refuse()

    refused, deadline = True, time.monotonic() + 60
    while refused and time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            watch.refuse()
        except HasWriterError:
            continue
        refused = False
    assert not refused
