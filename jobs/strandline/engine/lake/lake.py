"""The places of a lake: one folder, every place derived from a table's one name."""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline.core.static import Static
from strandline.core.table import Feed, Judged, Table
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.place import Place, each_done
from strandline.engine.lake.store_lease import hold
from strandline.engine.runtime.processes import REQUESTS
from strandline.engine.runtime.roles import FILE as ROLES
from strandline.engine.runtime.settings import near_folder, store_options

# The forms in which a lake is written: a program that is too old for one of them refuses before it writes.
#
# A roll-back was possible until a newer program had written something that the older one takes for something else. It
# ended in the middle of a batch of one table, with ``KeyError: 'changes'``, after the others had gone on. So the lake
# says itself what it holds: one small file has, for each kind of what is stored, the number of the newest form in it.
#
# * A writer raises a number before it first writes the newer form, never because it is new itself: until then the
#   older program may come back.
# * A lake without the file is of before, and opens as it did.
# * The file explains each form in words, because the program that reads them does not know what came after it.
#
# Only who writes refuses. Questions are answered as far as they can be, and what they meet and do not know is an error of
# its own (jobs/strandline/engine/lake/log/ledger.py).

STATE, ENTRIES, TABLES, CHECKPOINTS = "state of streams", "ledger entries", "tables", "checkpoints"
COLUMNS, CLOSES = "columns", "closes"
"""Kinds of what is stored; a newer program may have more of them."""

PAGE = "infra/docs/kubernetes.md#roll-back"


class NewerLakeError(DefinitionError):
    """A newer program has written the lake in a form that this one does not know; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of one kind.

    Args:
        number: It counts up; 0 is what was written before forms had numbers.
        what: What is written in it that a program of before cannot read.
        since: The day of the first program that can.
        by: The version that raised a lake to it.
    """

    number: int
    what: str
    since: str
    by: str = ""


FORMS: Mapping[str, Form] = {
    STATE: Form(
        number=1,
        what="rows that wait in the state of a table's fold lie in pieces",
        since="2026-11-26",
    ),
    ENTRIES: Form(
        number=2,
        what="a topic that was retired, or a cluster that was left",
        since="2026-11-26",
    ),
    TABLES: Form(
        number=1,
        what="one is retired, and code of before would feed it",
        since="2026-11-27",
    ),
    CHECKPOINTS: Form(
        number=1,
        what="the state of a de-duplication is in memory while it is small, in files of its own",
        since="2026-11-28",
    ),
    COLUMNS: Form(
        number=1,
        what="one was given a wider type, or another name, in place",
        since="2026-11-29",
    ),
    CLOSES: Form(
        number=1,
        what="a table was closed on purpose, and a rebuild by code of before would take its last windows back",
        since="2026-11-29",
    ),
}
"""The newest form of each kind that this program knows; it writes and reads all up to that."""


def raise_to(place: Place, kind: str, lock: Place) -> None:
    """Say in a lake that it holds the newest form of a kind from now on; called before that is written.

    Args:
        place: The lake's file.
        kind: Of what.
        lock: The file whose lock lets one program at a time change it.
    """
    form = FORMS[kind]
    if _number(forms(place).get(kind)) >= form.number:
        return
    with hold(lock):
        known = forms(place)
        if _number(known.get(kind)) < form.number:
            from importlib.metadata import version  # noqa: PLC0415  # it imports what reads mail

            by = f"strandline {version('strandline')}"
            raised = {**known, kind: {**asdict(form), "by": by}}
            place.put(json.dumps(raised, indent=1))


def forms(place: Place) -> dict[str, Any]:
    """Return what a lake says of its forms, by kind; nothing where it is of before.

    Raises:
        DataError: The file cannot be read.
    """
    text = place.text()
    if text is None:
        return {}
    try:
        found = json.loads(text)
        if all(isinstance(_number(each), int) for each in found.values()):
            return dict(found)
    except (AttributeError, TypeError, ValueError, KeyError):
        pass
    raise DataError(
        f"{place.name} of the lake cannot be read, so it is not known in which form the lake is written",
        hint=f"a program may change nothing meanwhile. Take {place.name} from a snapshot; without one write "
        f"`{{}}` into it, if no newer program than this one ever wrote the lake ({PAGE}).",
        file=str(place),
    )


def newer(place: Place) -> list[str]:
    """Return a sentence for each form of a lake that this program does not know."""
    return [
        f"its {kind} have form {_number(each)}{_words(each)}, and this program knows "
        f"{'up to form ' + str(FORMS[kind].number) if kind in FORMS else 'no such kind'}"
        for kind, each in sorted(forms(place).items())
        if _number(each) > (FORMS[kind].number if kind in FORMS else 0)
    ]


def no_way_back(place: Place) -> list[str]:
    """Return for each form of a lake what a program of before cannot read: a roll-back ends there."""
    return [
        f"no way back: the {kind} of this lake have form {_number(each)}{_words(each)}. Code of before {each['since']} cannot read that; "
        f"where it does not look at {place.name} it fails in the middle of a table ({PAGE})"
        for kind, each in sorted(forms(place).items())
        if isinstance(each, dict) and "since" in each
    ]


def refuse_newer(place: Place) -> None:
    """Refuse to write a lake that a newer program has written in a form which this one does not know.

    Raises:
        NewerLakeError: One has.
        DataError: The lake's file cannot be read.
    """
    if not (unknown := newer(place)):
        return
    by = {
        str(each["by"])
        for each in forms(place).values()
        if isinstance(each, dict) and each.get("by")
    }
    since = [
        str(each["since"])
        for each in forms(place).values()
        if isinstance(each, dict) and each.get("since")
    ]
    what = f"a program of {max(since)} or later" if since else "the program that wrote it"
    raise NewerLakeError(
        f"a newer program has written {place.parent}: {'; '.join(unknown)}",
        hint=f"nothing was changed. Start {what}{' (' + ' or '.join(sorted(by)) + ' wrote it)' if by else ''}, or restore a "
        f"snapshot of before into another folder ({PAGE}); questions such as `strandline ledger` are answered as far as they can be.",
        lake=str(place.parent),
        forms={kind: _number(each) for kind, each in forms(place).items()},
    )


def _number(form: Any) -> int:  # noqa: ANN401  # as JSON has it
    """Return the number of a form; a plain number is one as well."""
    if form is None:
        return 0
    return int(form["number"]) if isinstance(form, dict) else int(form)


def _words(form: Any) -> str:  # noqa: ANN401  # as above
    what = form.get("what") if isinstance(form, dict) else None
    return f" ({what})" if what else ""


# Refuse folders that cannot hold a lake at the start, because Spark, Delta and DuckDB fail late with another message.
#
# Spaces, quotes and umlauts work. What is refused was tried: delta-rs opens ``A`` for ``%41`` and panics at ``[``, DuckDB
# reads ``*`` and ``?`` as a pattern, which matches other files as well, Spark splits its scratch folders at a comma, and
# Delta writes a folder into SQL between backticks.


MISREAD = re.compile(r"[\x00-\x1f\x7f\\,%*?^|\[\]{}`]")
MISREAD_ON_STORE = re.compile(r"[^A-Za-z0-9'+!$&(),;:@=_./-]|(?<![^/])\.\.?(?![^/])|//")
"""What delta-rs takes for another key than Spark and we do: at # and ? it ends, so all tables of such a lake would be one to it; a space or
a letter beyond ASCII it writes in its own way. And parts of a path that are none of a key."""
LONGEST = 3_500
"""Bytes; the system's limit of 4,096 less the names of Spark's state and scratch files below the lake."""
CHOOSE = "choose another folder with --lake or STRANDLINE_LAKE."


def refuse_folder(root: Place) -> None:
    """Refuse a folder that cannot hold a lake, whether it exists or not.

    Raises:
        DefinitionError: It is a file, lies under one, or its name cannot be used.
    """
    if not root.is_local:
        misread = sorted(set(MISREAD_ON_STORE.findall(root.path)))
        if misread:
            raise _refusal(root, f"its address contains {', '.join(map(repr, misread))}")
        return
    misread = sorted(set(MISREAD.findall(str(root))))
    if misread:
        raise _refusal(root, f"its path contains {', '.join(map(repr, misread))}")
    if len(os.fsencode(root)) > LONGEST:
        raise _refusal(root, f"it is longer than {LONGEST:,} bytes")
    try:
        kind = root.local.stat().st_mode
    except FileNotFoundError:
        return
    except PermissionError:  # reported when the folder is used
        return
    except OSError as error:
        raise DefinitionError(
            f"the lake folder {root} cannot be written: {error.strerror}",
            hint=CHOOSE,
            lake=str(root),
        ) from error
    if not stat.S_ISDIR(kind):
        raise DefinitionError(f"{root} is a file, not a lake", hint=CHOOSE, lake=str(root))


def unwritable(root: Place, error: OSError) -> LakeError:
    """Return the error of a lake in which a file could not be written: a full disk passes, all else is the folder's."""
    # Not imported above: with Kafka's client it takes longer than most answers.
    from strandline.engine.runtime.outage import absence  # noqa: PLC0415  # as above

    return absence(error) or DefinitionError(
        f"the lake folder {root} cannot be written: {error.strerror}",
        hint="make the folder writable, or choose another with --lake or STRANDLINE_LAKE.",
        lake=str(root),
    )


def _refusal(root: Place, why: str) -> DefinitionError:
    return DefinitionError(
        f"the lake folder {root} cannot be used, because {why}", hint=CHOOSE, lake=str(root)
    )


# Refuse an object store on which two writers would overwrite each other, before the first write to a lake.
#
# All that keeps writers apart there rests on ``If-None-Match`` and ``If-Match``. A server, or a proxy before it, that ignores
# these headers looks fine until two writers meet, and then loses a commit without an error. So it is asked once a lake and
# address to create an object that is there, and to replace one that has changed; that it refused both is remembered in the lake.


FOLDER = "_store"
"""The folder of a lake with what was seen of its store."""


def refuse_unsafe(root: Place, *, remembers: bool = True) -> None:
    """Refuse a store that does not honour conditions.

    Args:
        root: The lake.
        remembers: Whether to write down in the lake that it does, and to believe that another time.

    Raises:
        DefinitionError: It does not.
    """
    address = hashlib.sha256((store_options(root.scheme).endpoint or "").encode()).hexdigest()[:12]
    mark = root / FOLDER / f"{address}.json"
    if remembers and mark.is_file():
        return
    if not _honours_conditions(root / FOLDER / f"probe-{uuid4().hex}"):
        raise DefinitionError(
            f"the object store of {root} lets more than one of several writers win (If-None-Match, If-Match), so of two writers the second would overwrite "
            "what the first has committed",
            hint="choose a store that honours both, as Amazon S3, SeaweedFS, versitygw, Google Cloud Storage and Azure do, and no proxy that drops headers.",
            lake=str(root),
        )
    if remembers:
        mark.put('{"honours": ["If-None-Match", "If-Match"]}\n')


def _honours_conditions(probe: Place) -> bool:
    try:
        # Together, because some servers look and then write: one after the other they refuse what they should.
        texts = (f"created by {number}" for number in range(RACERS))
        tags = each_done(lambda text: probe.exchange(text, None), texts, among=(probe,))
        won = [tag for tag in tags if tag is not None]
        first = won[0] if won else None
        second = probe.exchange("replaced", first)
        is_replaced = second is not None and probe.exchange("replaced late", first) is None
        probe.remove_file()
        # MinIO of before September 2025 wrote what was to replace an object that is gone.
        return len(won) == 1 and is_replaced and probe.exchange("replaced gone", second) is None
    finally:
        probe.remove()


RACERS = 8
"""Writers that a store is asked by at once."""

WRITER = "writer"
LOOK_AT_STORE = 10.0
"""Seconds; a sixth of the silence after which a stream counts as dead (jobs/strandline/engine/service/stream_health.py)."""
RESTORING = "_restoring.json"
"""The file in a lake on a store that is being restored; in a folder a lake has its name when it is complete."""
SHORT = 0.05
"""The share of a disk below which a person is asked to make room."""
ROOM = 1_000_000
"""Bytes; with less the heartbeat cannot be written for long."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder with everything that a lakehouse stores.

    Args:
        root: Its place; a path is taken for one.
    """

    root: Place

    def __post_init__(self) -> None:
        """Refuse a folder that cannot hold a lake."""
        object.__setattr__(self, "root", Place.of(self.root))
        refuse_folder(self.root)
        if not self.root.is_local:
            REQUESTS.watch(self.root.path)

    def table(self, table: Table | Feed | Static) -> Place:
        """Return the Delta table's folder; that of a feed has its ledger and no rows, that of a static table its versions."""
        return self.root / table.layer / table.name

    def quarantine(self, table: Table) -> Place:
        """Return the folder of the quarantine beside a silver table."""
        return self.root / "quarantine" / table.name

    @property
    def is_rebuilding(self) -> bool:
        """Return whether it is the shadow in which a table is rebuilt beside the live one."""
        return False

    @property
    def gates(self) -> Place:
        """Return the folder with the files of the gates."""
        return self.root / "_gates"

    @property
    def docs(self) -> Place:
        """Return the folder with Great Expectations' own pages, which its library writes as files of this machine."""
        return self.near / "_docs"

    def audit(self, table: Table) -> Place:
        """Return the file with the result of the last audit of a table's rows."""
        return self.root / "_audits" / f"{table.id}.json"

    def resolutions(self, table: Table) -> Place:
        """Return the folder with the decisions about the rows of a quarantine."""
        return self.root / "resolutions" / table.name

    def provisional(self, name: str) -> Place:
        """Return the folder of the provisional rows of the table of a name (jobs/strandline/engine/lake/completeness.py)."""
        return self.root / "provisional" / name

    def checkpoint(self, table: Table | Feed) -> Place:
        """Return the folder with the state of the stream of a table or a feed."""
        return self.root / "_checkpoints" / table.id

    def batch_size(self, table: Table) -> Place:
        """Return the file with the size of the table's next batch, and why it is that."""
        return self.root / "_sizes" / f"{table.id}.json"

    def lease(self, table: Table | Feed, role: str = WRITER) -> Place:
        """Return the file whose lock makes one process the table's writer, or gives it another role."""
        return self.lease_of(table.id if role == WRITER else f"{table.id}.{role}")

    def lease_of(self, name: str) -> Place:
        """Return the same file for a table's name."""
        return self.leases / f"{name}.lock"

    @property
    def leases(self) -> Place:
        """Return the folder with the leases, and with what asks for a table."""
        return self.root / "_leases"

    def certificate(self, table: Table, *, is_whole: bool = True, by: str = "") -> Place:
        """Return the file with the result of the last verification of the table, or of a range of it, or by another engine."""
        name = f"{table.id}.{by}" if by else table.id if is_whole else f"{table.id}.range"
        return self.root / "_certificates" / f"{name}.json"

    def lineage(self, table: Table) -> Place:
        """Return the file with the columns from which each column of the table is computed."""
        return self.root / "_lineage" / f"{table.id}.json"

    @property
    def scratch(self) -> Place:
        """Return the folder with the scratch lakes of verifications under way."""
        return self.root / "_verify"

    @property
    def frozen(self) -> Place:
        """Return the folder in which a snapshot under way holds the files that it copies."""
        return self.root / "_snapshot"

    @property
    def near(self) -> Place:
        """Return the folder of this machine for its programs' logs, locks, Dagster and broker: the lake's own if it is here."""
        return self.root if self.root.is_local else Place(str(near_folder(str(self.root))))

    def log(self, name: str) -> Place:
        """Return the file for the log of a program."""
        return self.near / "_logs" / f"{name}.log"

    def program_log(self, name: str) -> Path:
        """Return the same file for a program that is started with it as its output; its folder is there."""
        file = self.log(name)
        return file.parent.make().local / file.name

    @property
    def history(self) -> Place:
        """Return the folder of the table with the figures of every commit."""
        return self.root / "quality" / "history"

    @property
    def costs(self) -> Place:
        """Return the folder with what processes used, by day (jobs/strandline/engine/service/process_cost.py)."""
        return self.root / "_costs"

    @property
    def closed_entries(self) -> Place:
        """Return the folder of the table with the ledger entries of closed books."""
        return self.root / "ledger" / "entries"

    def report(self, day: str) -> Place:
        """Return the file for a report that begins on a day."""
        return self.root / "quality" / f"report-{day}.html"

    @property
    def schemas(self) -> Place:
        """Return the folder with the schemas of payloads, by their ids in a registry."""
        return self.root / "_schemas"

    @property
    def backtest(self) -> Place:
        """Return the file for the page of the last backtest of alert rules."""
        return self.root / "quality" / "backtest.html"

    @property
    def backtest_figures(self) -> Place:
        """Return the file with the figures of the last backtest of alert rules, for programs."""
        return self.root / "quality" / "backtest.json"

    @property
    def dagster(self) -> Place:
        """Return the folder in which Dagster keeps its runs and events."""
        return self.near / "_dagster"

    @property
    def heartbeat(self) -> Place:
        """Return the file with the heartbeat of an always-on stream."""
        return self.root / "_stream.json"

    @property
    def feeds_beat(self) -> Place:
        """Return the file with the heartbeat of the process that runs the feeds."""
        return self.root / "_alerts.json"

    @property
    def rule_changes(self) -> Place:
        """Return the file with a line for each change of the rules that raised alerts."""
        return self.root / "_rule_changes.jsonl"

    @property
    def live_rules(self) -> Place:
        """Return the file with the alert rules that ran last, and where they stopped."""
        return self.root / "_live_rules.json"

    @property
    def rules(self) -> Place:
        """Return the folder with the versions of the alert rules that were promoted."""
        return self.root / "_rules"

    @property
    def models(self) -> Place:
        """Return the folder with the versions of each model, and which of them holds from when on."""
        return self.root / "_models"

    @property
    def deliveries(self) -> Place:
        """Return the folder with how far each receiver of alerts has got them."""
        return self.root / "_deliveries"

    @property
    def publications(self) -> Place:
        """Return the folder with how far each target of a table's changes has got them."""
        return self.root / "_publish"

    @property
    def catalogs(self) -> Place:
        """Return the folder with how far each catalog of other engines is."""
        return self.root / "_catalogs"

    @property
    def broker(self) -> Place:
        """Return the folder of the lake's own Kafka broker."""
        return self.near / "_kafka"

    @property
    def alarms(self) -> Place:
        """Return the folder of the alarms that are not delivered yet."""
        return self.root / "_alarms"

    @property
    def radar(self) -> Place:
        """Return the file with what the radar saw last."""
        return self.root / "_radar.json"

    @property
    def formats(self) -> Place:
        """Return the file with the forms in which the lake is written."""
        return self.root / "_formats.json"

    @property
    def retired(self) -> Place:
        """Return the file with the tables that are no longer fed (jobs/strandline/engine/lake/completeness.py)."""
        return self.root / "_retired.json"

    @property
    def roles(self) -> Place:
        """Return the file with who may do what (jobs/strandline/engine/runtime/roles.py)."""
        return self.root / ROLES

    @property
    def order(self) -> Place:
        """Return the file with the desired state of the always-on stream: running or stopped."""
        return self.root / "_order.json"

    @property
    def order_lock(self) -> Place:
        """Return the file whose lock lets one command at a time decide about the always-on stream."""
        return self.near / "_order.lock"

    @property
    def alerts_order(self) -> Place:
        """Return the file with the desired state of the process that raises alerts."""
        return self.root / "_alerts_order.json"

    @property
    def alerts_order_lock(self) -> Place:
        """Return the file whose lock lets one command at a time decide about that process."""
        return self.near / "_alerts_order.lock"

    def folders(self, table: Table) -> tuple[Place, ...]:
        """Return the table's Delta folders: its own, and its quarantine if it has one."""
        own = (self.table(table),)
        return (*own, self.quarantine(table)) if isinstance(table, Judged) else own

    def books(self, table: Table) -> tuple[Place, ...]:
        """Return those folders and the resolutions; together they account for each event."""
        return (
            *self.folders(table),
            *((self.resolutions(table),) if isinstance(table, Judged) else ()),
        )

    def exists(self, table: Table) -> bool:
        """Return whether the table was ever created."""
        return is_table(self.table(table))

    def refuse_missing(self, table: Table) -> None:
        """Refuse a table that was never created.

        Raises:
            DefinitionError: It does not exist.
        """
        if not self.exists(table):
            raise DefinitionError(
                f"{table.id} does not exist in {self.root} yet",
                hint=f"run it first: `strandline run {table.id}`.",
                table=table.id,
            )

    def pause(self, seconds: float) -> float:
        """Return the seconds between two looks at what other programs may have changed, of which a folder bears one so often.

        On a store each look is some requests, and each request is money: beside three idle tables, about 40 $ a month.
        """
        return seconds if self.root.is_local else max(seconds, LOOK_AT_STORE)

    @property
    def is_restoring(self) -> bool:
        """Return whether a restore of it was begun and has not ended."""
        return not self.root.is_local and (self.root / RESTORING).is_file()

    def refuse_restoring(self) -> None:
        """Raise a ``TransientError`` where it is being restored, and so was not verified yet."""
        if self.is_restoring:
            raise TransientError(
                f"{self.root} is being restored, and was not verified yet",
                hint="wait until `strandline restore` has ended; if it was killed, type it again, and it begins anew.",
                lake=str(self.root),
            )

    def refuse_newer(self) -> None:
        """Refuse to change it where a newer program has written it in a form that this one does not know.

        Raises:
            NewerLakeError: One has.
        """
        refuse_newer(self.formats)

    def raise_to(self, kind: str) -> None:
        """Say that it holds this program's form of a kind from now on."""
        raise_to(self.formats, kind, self.lease_of("_formats"))

    def has_room(self) -> bool:
        """Return whether a file can be written; a full disk explains a missing heartbeat."""
        return self.free_bytes() >= ROOM

    def free_bytes(self) -> int:
        """Return the room on the disk of this machine that the lake, or its logs, are on."""
        return shutil.disk_usage(self.near.make()).free

    def disk_bytes(self) -> int:
        """Return the size of that disk."""
        return shutil.disk_usage(self.near.make()).total

    def is_short_of_room(self) -> bool:
        """Return whether so little of the disk is free that a person should make room: a share, because lakes are of all sizes."""
        return self.free_bytes() < SHORT * self.disk_bytes()

    def room_left(self) -> str:
        """Say how much room the disk has."""
        free, total = self.free_bytes(), self.disk_bytes()
        return f"{free / total:.0%} of its disk is free, {free / 1e9:,.1f} of {total / 1e9:,.1f} GB"

    def open_for_writing(self) -> "Lake":
        """Create the folder if it is missing, and check that it can be written, by one writer at a time.

        Raises:
            DefinitionError: It cannot be created or written, or its store lets writers overwrite each other.
            NewerLakeError: A newer program has written it.
            TransientError: It is being restored.
        """
        if not self.root.is_local:
            self.refuse_restoring()
            refuse_unsafe(self.root)
            self.refuse_newer()
            return self
        probe = self.root / f".probe-{os.getpid()}"
        try:
            probe.put("")
            probe.remove()
        except OSError as error:
            raise unwritable(self.root, error) from error
        self.refuse_newer()
        return self
