"""A lease on an object store: one holder, who renews it, and an epoch that grows with every holder.

The lease is one small object, which the server lets one writer create and one writer replace. A holder renews it; it has
expired when it has not changed for its time to live on the clock of who waits, so no clocks are compared. A holder of this
machine that has ended is replaced at once.

A lease alone is not enough: a holder that is suspended for longer than its lease goes on where it was, and would commit. So who
takes over first writes a commit into each table, in which the lease is a transaction (``fence``). Each commit of a holder
depends on that transaction (jobs/strandline/engine/lake/commit/delta_commit.py) and is made after the lease was read and found to be one's own:
a fence that came before is seen in the lease, one that comes after is refused by Delta as a conflict.
"""

import fcntl
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO
from uuid import uuid4

from strandline.core.errors import ReplacedError
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime.outage import StoreAwayError
from strandline.engine.runtime.processes import is_there, own
from strandline.engine.runtime.settings import lease_seconds

LIFE = 30.0
"""Seconds without a renewal after which a lease has expired."""

LONGEST = 3600.0
"""The longest life that may be set, which that of a lease is that does not say its own: one of an older version."""

CLOCKS = 900.0
"""Seconds by which clocks may differ: S3 itself refuses a request whose clock differs by more."""

RENEWALS = 3
"""How often it is renewed within its life."""


class FencedError(ReplacedError):
    """Another process has taken over the writing of a table or a file."""


@dataclass(slots=True, kw_only=True)
class StoreLease:
    """A lease that this process holds.

    Args:
        place: Its object.
        epoch: How many holders there were, this one included.
        is_taken_over: Whether the former holder did not release it.
        tag: The tag of its object.
        life: Seconds without a renewal after which it has expired.
        id: Its own name, which no other holder has.
    """

    place: Place
    epoch: int
    is_taken_over: bool
    tag: str
    life: float
    id: str
    _beat: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """Return the name by which a table's log knows it."""
        return f"strandline.lease.{self.place.name.removesuffix('.lock')}"

    def keep(self) -> None:
        """Renew it from now on until it is released."""
        threading.Thread(target=self._renew, name=f"lease {self.place.name}", daemon=True).start()

    def refuse_lost(self) -> None:
        """Refuse to go on where another process has taken over.

        Raises:
            FencedError: It has.
        """
        found = self.place.tagged()
        if not self._is_mine(_state(found[0]) if found else {}):
            raise self.lost()

    def lost(self) -> FencedError:
        """Return the error of a holder that another process has replaced."""
        return FencedError(
            f"another process has taken over {self.place.name.removesuffix('.lock')}, because this one did not renew its "
            f"lease for {self.life:.0f} s",
            hint="nothing of the batch that this process was writing is in the table; let the other go on.",
            lease=str(self.place),
            epoch=self.epoch,
        )

    def release(self) -> str | None:
        """Let others take it at once; the epoch stays. Return the tag of the free lease; None where it is another's.

        None as well where the store does not answer: then it expires.
        """
        self._over.set()
        with self._lock, suppress(StoreAwayError):
            content = _content(None, self.epoch, self._beat + 1, self.life)
            return self.place.exchange(content, self.tag)
        return None

    def _renew(self) -> None:
        while not self._over.wait(self.life / RENEWALS):
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    tag = self._renewed()
                # A store that is away, or refuses a key for a minute, or says what has no name here: whether the lease is
                # still ours, the next commit asks. Only a successor ends the renewing, because nothing else begins it anew.
                except Exception:  # noqa: BLE001, S112  # as above
                    continue
                if tag is None:
                    return
                self.tag = tag

    def _renewed(self) -> str | None:
        """Renew it once; return its new tag, or None where another process holds it.

        A renewal that the store wrote while it went away is refused the next time by its own tag.
        """
        self._beat += 1
        content = _content({**own(), "id": self.id}, self.epoch, self._beat, self.life)
        tag = self.place.exchange(content, self.tag)
        if tag is not None:
            return tag
        found = self.place.tagged()
        if found is None:  # removed by a person, and by no successor
            return self.place.exchange(content, None)
        return found[1] if self._is_mine(_state(found[0])) else None

    def _is_mine(self, known: Mapping[str, Any]) -> bool:
        return known.get("epoch") == self.epoch and (known.get("owner") or {}).get("id") == self.id


def take(place: Place, life: float = LIFE) -> StoreLease | None:
    """Take a lease; None where its holder renews it.

    Args:
        place: Its object.
        life: Seconds without a renewal after which it has expired.
    """
    mine = {**own(), "id": uuid4().hex}
    seen, since = "", time.monotonic()
    while True:
        found = place.tagged()
        if found is None:
            new = place.exchange(_content(mine, 1, 0, life), None)
            if new is not None:
                return _held(place, mine, 1, life, new)
            continue
        state, tag = _state(found[0]), found[1]
        owner: Mapping[str, Any] | None = state["owner"]
        if seen and tag != seen and owner is not None:
            return None  # it was renewed
        if tag != seen:
            seen, since = tag, time.monotonic()
        # Its own life, where that is longer: it is renewed by that, and not by ours.
        is_expired = time.monotonic() - since > max(life, float(state.get("life", life)))
        if owner is None or is_expired or is_there(owner) is False:
            epoch = state["epoch"] + 1
            new = place.exchange(_content(mine, epoch, 0, life), tag)
            if new is not None:
                return _held(place, mine, epoch, life, new, is_taken_over=owner is not None)
            continue
        time.sleep(min(life / 20, 0.5))


def life_of(place: Place) -> float:
    """Return the seconds without a renewal after which a lease has expired, as its holder says; 0 where there is none."""
    found = place.text()
    return float(_state(found).get("life", 0.0)) if found else 0.0


def take_again(place: Place, epoch: int, tag: str, life: float) -> StoreLease | None:
    """Take a lease that this process was the last to release, without a look at it; None where it has changed since.

    The server decides, by the tag: as long as it is that of our release, no other process has taken it.

    Args:
        place: Its object.
        epoch: That of our release.
        tag: The tag that it has since.
        life: Seconds without a renewal after which it has expired.
    """
    mine = {**own(), "id": uuid4().hex}
    new = place.exchange(_content(mine, epoch + 1, 0, life), tag)
    return None if new is None else _held(place, mine, epoch + 1, life, new)


def holder(place: Place) -> dict[str, Any]:
    """Return who holds a lease, as far as is known; nothing where it is free, or its holder is gone.

    A holder of this machine is looked for. One of another is gone when it has not renewed its lease for its life and some
    minutes, by which the clocks of this machine and of the store may differ.
    """
    found = place.text()
    state = _state(found) if found else {}
    return dict(state["owner"]) if is_living(state, place) else {}


def is_living(state: Mapping[str, Any], place: Place) -> bool:
    """Return whether the content of a lease names a holder that is not gone."""
    owner = state.get("owner")
    if not owner:
        return False
    seen = is_there(owner)
    if seen is not None:
        return seen
    try:
        return unchanged_for(place) < float(state.get("life", LONGEST)) + CLOCKS
    except FileNotFoundError:  # removed meanwhile
        return False


def unchanged_for(place: Place) -> float:
    """Return for how many seconds a file or an object was not written, by the clocks of its machine and of this one."""
    return time.time() - place.modified_at().timestamp()


def fence(path: Place, lease: StoreLease) -> None:
    """Write a commit into a table's log that refuses the commits of the lease's former holders."""
    while is_table(path):
        info = {
            "timestamp": time.time_ns() // 1_000_000,
            "operation": "LEASE",
            "operationParameters": {"name": lease.name, "epoch": str(lease.epoch)},
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "engineInfo": "Strandline",
            "txnId": str(uuid4()),
        }
        transaction = {"appId": lease.name, "version": lease.epoch}
        actions = [{"commitInfo": info}, {"txn": transaction}]
        lines = [json.dumps(action, separators=(",", ":")) for action in actions]
        if commit_file(path, latest_version(path) + 1).create("\n".join(lines) + "\n"):
            return


def _held(  # noqa: PLR0913  # what a lease consists of
    place: Place,
    mine: Mapping[str, Any],
    epoch: int,
    life: float,
    tag: str,
    *,
    is_taken_over: bool = False,
) -> StoreLease:
    return StoreLease(
        place=place,
        epoch=epoch,
        is_taken_over=is_taken_over,
        tag=tag,
        life=life,
        id=mine["id"],
    )


def _state(content: str) -> dict[str, Any]:
    """Return what a lease holds; that of a lake which was copied from a folder is a lock of that folder, which locks nothing here."""
    try:
        found = json.loads(content)
    except ValueError:
        return {"owner": None, "epoch": 0}
    return found if "epoch" in found else {"owner": None, "epoch": 0}


def _content(owner: Mapping[str, Any] | None, epoch: int, beat: int, life: float) -> str:
    return json.dumps({"owner": owner, "epoch": epoch, "beat": beat, "life": life})


# A lock between programs of one machine: a file that one of them holds, with a note about itself in it.
#
# The kernel releases it when the program ends, however it ends. It belongs to the open file and not to the process, so two
# threads exclude each other as well, and to look whether it is held does not release one's own. The leases of tables are
# other locks (jobs/strandline/engine/lake/locks.py), because the JVM holds those.
#
# On an object store it is a lease between programs of any machine, whose note is the record
# of its holder. One that was suspended for longer than its lease goes on beside its successor: what is written under such a
# lock is written by ``Place.exchange``, which refuses it.


AGAIN = 0.2
"""Seconds between two attempts to take a lease that another program renews."""

ATTEMPTS = 10
"""How often a lock of this machine is tried within that time."""


class HeldError(Exception):
    """Another program holds a lock."""

    def __init__(self, note: str) -> None:
        """Take what the holder wrote about itself."""
        super().__init__(note)
        self.note = note


@contextmanager
def hold(place: Place, note: str = "", *, waits: bool = True) -> Iterator[None]:
    """Hold a lock for the length of the block.

    Args:
        place: The file; it stays when the lock is released.
        note: What others read in it meanwhile, in a folder; on a store that is the record of this process.
        waits: Whether to wait until it is free.

    Raises:
        HeldError: Another program holds it, and this one does not wait.
    """
    if not place.is_local:
        with _leased(place, waits=waits):
            yield
        return
    place.parent.make()
    with place.local.open("a+", encoding="utf-8") as file:
        if waits:
            fcntl.flock(file, fcntl.LOCK_EX)
        else:
            _lock_soon(file)
        file.truncate(0)
        file.write(note)
        file.flush()
        yield


def _lock_soon(file: TextIO) -> None:
    """Lock a file, of which a look at its note (``note_of_holder``) holds the lock as well, for less than a millisecond.

    Raises:
        HeldError: Another program holds it.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if attempt == ATTEMPTS:
                file.seek(0)
                raise HeldError(file.read()) from error
            time.sleep(AGAIN / ATTEMPTS)
        else:
            return


def note_of_holder(place: Place) -> str | None:
    """Return what the holder of a lock wrote about itself; None where no program holds it."""
    if not place.is_local:
        return json.dumps(found) if (found := holder(place)) else None
    try:
        with place.local.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read()
    except FileNotFoundError:
        pass
    return None


@contextmanager
def _leased(place: Place, *, waits: bool) -> Iterator[None]:
    """Hold a lease on a store for the length of the block."""
    while (held := take(place, lease_seconds())) is None:
        if not waits:
            raise HeldError(json.dumps(holder(place)))
        time.sleep(AGAIN)
    held.keep()
    try:
        yield
    finally:
        held.release()
