"""What shows the engine at work: events of a project's play, sent to its topics, with a lake that is filled with them and accounted for; and the notebooks of the tour."""

import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from strandline import catalog

from strandline.catalog import Play
from strandline.core.errors import DataError, DefinitionError
from strandline.core.kind import Layer
from strandline.core.stateful import AvailableNow
from strandline.core.topic import Counts, Foreseen, Planned, Topic
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.accounting.routes import read_before
from strandline.engine.flow.runner import run
from strandline.engine.kafka import broker
from strandline.engine.kafka.send_records import Sent, at_once, send_records
from strandline.engine.kafka.topic_log import WAY
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.order_log import FOLDER as ORDERS
from strandline.engine.lake.place import Place
from strandline.engine.runtime.settings import Settings, environment, settings
from strandline.operate import session
from strandline.operate.audit import sheets_of
from strandline.operate.listener import Says
from strandline.operate.run import SideBySide, has_backlog, in_turn
from strandline.operate.run import at_once as at_a_time

MARK = ".strandline-demo"
"""A file in the demo's lake: a folder that has it may be deleted and made again."""

FORGOTTEN = 600.0
"""Seconds in which a store must list nothing of what was removed. SeaweedFS lists the names of emptied folders for some minutes, and
Spark refuses to begin beside one."""


Outcome = TypeVar("Outcome")


def filled(
    lake: str | None, send: Callable[[Lake, str], Outcome], says: Says
) -> tuple[Lake, Outcome, list[Balance]]:
    """Send events through an empty lake, and return where each is.

    Args:
        lake: The lake that was named.
        send: Sends the events of a lake to the broker at an address.
        says: Hears of what takes time.

    Returns:
        The lake, what was sent, and the balance of each table.

    Raises:
        DefinitionError: The folder holds something that no demo made.
    """
    where = Lake(Place.of(lake) if lake else Place.of(settings().lake) / "demo")
    _empty(where, says)
    says("starting a Kafka broker …")
    with broker.for_this_work(where) as running:
        broker.make_missing(running.address, catalog.tables())  # also topics that get no event
        sent = send(where, running.address)
        _run_tables(where, running.address, says)
    return where, sent, sheets_of(where)


def _empty(where: Lake, says: Says) -> None:
    """Empty the demo's lake.

    Raises:
        DefinitionError: The folder holds something that no demo made.
    """
    if where.root.names():
        if not (where.root / MARK).exists():
            raise DefinitionError(
                f"{where.root} is not empty, and not made by a demo",
                hint="choose an empty folder with --lake.",
            )
        broker.down(where)
        where.root.remove()
    if not where.root.is_local:
        # The broker's records are beside a lake on a store, and would be read again.
        broker.down(where)
        where.near.remove()
        _await_empty(where, says)
    where.open_for_writing()
    (where.root / MARK).put("")


def _await_empty(where: Lake, says: Says) -> None:
    deadline = time.monotonic() + FORGOTTEN
    if where.root.names():
        says(f"waiting until the store lists nothing in {where.root} any more …")
    while names := where.root.names():
        if time.monotonic() > deadline:
            raise DefinitionError(
                f"the store still lists {', '.join(names)} in {where.root}, which was removed",
                hint="choose another folder with --lake.",
            )
        time.sleep(1)


def _run_tables(where: Lake, address: str, says: Says) -> None:
    """Run every table once, over all that is in the topics."""
    says("starting Spark …")
    found = settings(lake=str(where.root))
    site = session.site(found, where, address, is_brief=True, says=says)
    heard = in_turn(threading.RLock(), says)

    def note_batch(entry: Entry) -> None:
        heard(f"{entry.table}: {entry.read:,} rows read in {entry.duration_ms / 1000:.1f} s")

    SideBySide(
        at_a_time(found),
        lambda table: run(table, AvailableNow(), where, site=site, on_commit=note_batch),
        is_large=partial(has_backlog, lake=where, how=AvailableNow()),
    ).go(catalog.tables())
    site.spark.stop()


# The events of a project's play are sent to its topics, and what became of them is compared with what the play expects.


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What was sent, and the exact counts that each table must have of it.

    A truth describes one run into topics that hold nothing else. After a second run into the same topics, or the same lake,
    the tables hold the sum of both; and a second run of the same events adds only duplicates.

    Args:
        plan: What was asked for.
        topics: The number of records sent to each topic; fewer than asked for after an interrupt.
        tables: The counts by table; None where the play does not say.
    """

    plan: Mapping[str, object]
    topics: Mapping[str, int]
    tables: Mapping[str, Counts] | None

    @property
    def events(self) -> int:
        """Return the number of records sent to all topics."""
        return sum(self.topics.values())

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        plan = {name: _plain(value) for name, value in self.plan.items()}
        found = {"plan": plan, "topics": self.topics, "events": self.events}
        if self.tables is None:
            return found
        return {**found, "tables": {name: each.as_dict() for name, each in self.tables.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of a play.

    Args:
        events: The number of records.
        until: The end of their arrivals.
        rate: Events a second; as fast as possible when absent.
        options: The play's own options.
        truth: Whether the expected counts are wanted.
        makes_topics: Whether a topic that the cluster lacks is created.
    """

    events: int
    until: datetime
    rate: float | None = None
    options: Mapping[str, object]
    truth: bool = False
    makes_topics: bool = False


def send(  # noqa: PLR0913, PLR0917  # one call: what, for which lake, to which cluster
    play: Play,
    asked: Asked,
    where: Lake,
    address: str,
    kafka_options: Mapping[str, str],
    on_progress: Callable[[int], None],
) -> tuple[Sent, Truth]:
    """Send the events of a play to the topics that a lake reads.

    Raises:
        DefinitionError: The play or an option is refused; nothing was sent.
        TransientError: The broker went away.
        DataError: The topics have not grown as they should.
    """
    made = play.played(asked.events, asked.until, at_once(asked.rate), asked.options)
    if asked.truth:
        play.refuse_unforeseen(made)
    topics = {topic.name: topic for table in catalog.tables() for topic in table.topics}

    def make(topic: Topic) -> None:
        refuse_gone(topic, where, address)
        if not asked.makes_topics:
            raise _lacking(topic, address)
        broker.create_topic(address, topic.name, topic.partitions, kafka_options)

    sent = send_records(
        address,
        kafka_options,
        list(topics.values()),
        play.taken(made),
        count=asked.events,
        rate=asked.rate,
        on_progress=on_progress,
        on_absent=make,
    )
    own = {"until": asked.until, "events": asked.events, **asked.options}
    plan = made.plan() if isinstance(made, Planned) else own
    tables = made.expected() if isinstance(made, Foreseen) else None
    return sent, Truth(plan={**plan, "rate": asked.rate}, topics=sent.topics, tables=tables)


def refuse_gone(topic: Topic, where: Lake, address: str) -> None:
    """Refuse to make a topic anew that a table has read: its new records would have the places of those that were read.

    Raises:
        DefinitionError: One has.
    """
    for table in catalog.tables():
        if topic.name in read_before(table, where):
            raise DefinitionError(
                f"the topic {topic.name} does not exist at {address} any more, and {table.id} has read it; "
                "no event was sent to it",
                hint=f"do not make it anew: {WAY}",
                topic=topic.name,
                table=table.id,
            )


def _lacking(topic: Topic, address: str) -> DefinitionError:
    return DefinitionError(
        f"the topic {topic.name} does not exist at {address}; no event was sent to it",
        hint=f"ask the operators of the cluster to create it with {topic.partitions} partitions, "
        "or type the same with --make-topics, which creates it with the cluster's own replication.",
        topic=topic.name,
    )


def refuse_untruth(sheets: Sequence[Balance], truth: Truth) -> None:
    """Compare the ledger with the events that were sent.

    Raises:
        DefinitionError: The play expects something of a table that there is not.
        DataError: The ledger has other counts than the play expects.
    """
    found = {sheet.table: sheet for sheet in sheets}
    for name, counts in (truth.tables or {}).items():
        catalog.find(name)
        if name.startswith(Layer.BRONZE) or name not in found:
            continue  # bronze counts what it received, and the balance compares that with the topics
        sheet, expected = found[name], counts.as_dict()
        counted = {each: getattr(sheet, each) for each in ("good", "duplicates")}
        counted["quarantined"] = dict(sorted(sheet.quarantined.items()))
        if counted != expected:
            raise DataError(
                f"the ledger of {name} has {counted}, but the play expects {expected} of what it sent",
                hint="`strandline quarantine list` shows what was held back and why; correct the play or the rules of the table.",
                table=name,
            )


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            return value


# The notebooks of the tour: where they lie, what a session of them may write, and one run from its first cell to its last.

TOUR = Path(__file__).with_name("notebooks")
NAMES = ("explore", "why", "backtest", "quality")
NBCLIENT = "from nbclient.cli import main; main()"
"""``jupyter execute``, by the Python that runs this."""
PATIENCE = 300
"""Seconds that a cell may take with ``--run``."""


def toured(folder: Path, lake: Lake) -> Path:
    """Return the folder with the tour in it.

    Raises:
        DefinitionError: The lake is below it, so it could be written.
    """
    if lake.root.is_local and Place.of(folder).holds(lake.root):
        raise DefinitionError(
            f"the lake {lake.root} lies in the folder of the notebooks, which they may write",
            hint="name another folder: --folder notebooks.",
        )
    own = folder / ".jupyter"
    (own / "tmp").mkdir(parents=True, exist_ok=True)
    # It has the page's secret, and is no part of a project, wherever the folder is.
    (own / ".gitignore").write_text("*\n", encoding="utf-8")
    for name in NAMES:
        file = folder / f"{name}.ipynb"
        if not file.exists():
            shutil.copyfile(TOUR / file.name, file)
    return folder


def environment_of(found: Settings, lake: Lake, folder: Path) -> dict[str, str]:
    """Return the variables of the kernels: the same settings, and the files of Jupyter beside the notebooks."""
    own = folder / ".jupyter"
    kept = {
        "JUPYTER_RUNTIME_DIR": own / "run",
        "JUPYTER_DATA_DIR": own / "data",
        "JUPYTER_CONFIG_DIR": own,
        "IPYTHONDIR": own / "ipython",
        "TMPDIR": own / "tmp",
    }
    same = environment(replace(found, lake=str(lake.root)))
    return {**same, **{name: str(path) for name, path in kept.items()}}


def writable(lake: Lake, folder: Path) -> list[Path]:
    """Return where a session may write: its folder with its temporary files, the logs, and the log of orders, which has what was shown unmasked."""
    logs = [lake.log("notebook").parent, *([lake.root / ORDERS] if lake.root.is_local else [])]
    return [folder, *(each.make().local for each in logs), Path("/dev")]


def execute(file: Path, variables: dict[str, str]) -> float:
    """Run a notebook from its first cell to its last, and return how many seconds it took.

    Raises:
        DefinitionError: There is no such notebook.
        DataError: A cell failed.
    """
    if not file.exists():
        raise DefinitionError(
            f"there is no notebook {file}", hint=f"the tour has {', '.join(NAMES)}."
        )
    began = time.monotonic()
    words = ["-c", NBCLIENT, "--inplace", f"--timeout={PATIENCE}", str(file)]
    done = subprocess.run(  # noqa: S603  # the library's own program, without a shell
        [sys.executable, *words], env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        errors = re.findall(
            r"^(?:\x1b\[\d+m)?(\w+)(?:\x1b\[39m)?: (.+)$", done.stderr, re.MULTILINE
        )
        name, what = errors[-1] if errors else ("no error", f"exit code {done.returncode}")
        raise DataError(
            f"a cell of {file.name} failed: {name}: {what}",
            hint=f"open it: `strandline notebook --folder {file.parent}`.",
        )
    return time.monotonic() - began
