"""Dagster's programs behind ``strandline ui``.

Dagster is started as a program, because this package may not import it. Its programs get a session of their own, so
Ctrl-C reaches them only through us. Therefore they outlive us when we are killed, and a second daemon of one home
would start everything twice. A mark on Dagster's command line finds a program that was left behind, and a free lock
shows that its `strandline ui` is gone.
"""

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

import psutil
from pydantic import SecretStr

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.kafka.broker import bound_log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.runtime import processes
from strandline.engine.runtime.log_files import bound
from strandline.engine.runtime.processes import family
from strandline.project import refuse_without
from strandline_infra.broker import HOST
from strandline_infra.dagster_instance import WORKSPACE, instance

if TYPE_CHECKING:  # its driver is part of an extra
    from strandline.engine.service.dagster_database import Reservation

DEV = "strandline_dagster.dev"
"""``dagster dev``, with a webserver that no stranger's page orders about."""
PATIENCE = 300.0
"""Seconds until Dagster must answer; on two cores that do other things as well it once took more than 120."""
ENDING = 30.0
POLL = 0.2


class Console:
    """Dagster's programs of one lake."""

    def __init__(
        self,
        lake: Lake,
        port: int | None,
        *,
        database: SecretStr | None,
        note: Callable[[str], None],
    ) -> None:
        """Choose a port and refuse a second `strandline ui` of one lake; nothing runs yet.

        ``note`` is called when the database is away, and when it is back.

        Raises:
            DefinitionError: Dagster or the database's driver is not installed, the port is taken, `strandline ui` runs
                already, or the database refuses us.
            TransientError: The database does not answer.
        """
        for extra in ("dagster", *(["postgres"] if database is not None else [])):
            refuse_without(extra)
        self._lake = lake
        self._home = lake.dagster
        processes.refuse_taken(port)
        self._port = processes.bind(port or 0)
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        self._held = ExitStack()
        self._reservation: Reservation | None = None
        self._refuse_second()
        if database is not None:
            self._reservation = self._held.enter_context(closing(_reserved(database, note)))
        self._configure(in_database=database is not None)

    def start(self, stopped: threading.Event) -> str | None:
        """Start everything, and return the address when Dagster answers; None when it is stopped before that.

        Raises:
            TransientError: Dagster does not answer in time.
        """
        environment = [f"DAGSTER_HOME={self._home}", "DAGSTER_DISABLE_TELEMETRY=yes"]
        dev = ["-m", DEV, "-w", str(WORKSPACE), "-h", HOST, "-p", str(self._port)]
        self._start("dagster", ["-X", self._mark, *dev], environment)
        address = f"http://{HOST}:{self._port}"
        deadline = time.monotonic() + PATIENCE
        while not stopped.wait(POLL):
            self.refuse_ended()
            if _answers(address):
                return address
            if time.monotonic() > deadline:
                raise TransientError(
                    f"Dagster does not answer at {address} after {PATIENCE:.0f} s",
                    hint=f"its log is {self._lake.log('dagster')}.",
                )
        return None

    def refuse_ended(self) -> None:
        """Check that everything still runs.

        Raises:
            TransientError: A program has ended by itself.
            SharedError: The database was away, and another lake locked it first when it came back.
        """
        if self._reservation is not None:
            self._reservation.refuse_shared()
        bound_log(self._lake)
        for name, program in self._programs.items():
            bound(self._lake.log(name).local)
            if program.poll() is not None:
                raise TransientError(
                    f"{name} has ended by itself with code {program.returncode}",
                    hint=f"its log is {self._lake.log(name)}; remove the cause, then repeat the command.",
                    program=name,
                )

    @property
    def _mark(self) -> str:
        """Return a text that no other command line has; Python ignores an option that it does not know."""
        return f"strandline-ui={self._home}"

    def _refuse_second(self) -> None:
        try:
            self._held.enter_context(hold(self._home / "lock", waits=False))
        except HeldError as error:
            raise DefinitionError(
                f"`strandline ui` runs already for {self._lake.root}",
                hint="the terminal in which it was started has its address; stop it there with Ctrl-C.",
            ) from error
        left = processes.find(self._mark)
        if left is not None:
            programs = family(left)
            processes.stop(left, self._mark, patience=ENDING)
            _end(programs)

    def _configure(self, *, in_database: bool) -> None:
        (self._home / "dagster.yaml").put(instance(in_database=in_database))

    def stop(self) -> None:
        """Ask every program to end, and kill it after a while."""
        families = [family(program.pid) for program in self._programs.values()]
        for program in self._programs.values():
            if program.poll() is None:
                program.send_signal(signal.SIGINT)
        for each in families:
            _end(each)
        for program in self._programs.values():
            program.wait()
        self._held.close()

    def _start(self, name: str, words: list[str], environment: list[str]) -> None:
        environment = [f"STRANDLINE_LAKE={self._lake.root}", *environment]
        command = ["/usr/bin/env", *environment, sys.executable, *words]
        self._programs[name] = processes.child(command, log=self._lake.program_log(name))


def _reserved(database: SecretStr, note: Callable[[str], None]) -> "Reservation":
    from strandline.engine.service.dagster_database import Reservation  # noqa: PLC0415  # see above

    return Reservation(database, note)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/server_info", timeout=2):  # noqa: S310  # our own address
            return True
    except (urllib.error.URLError, OSError):
        return False


def _end(alive: list[psutil.Process]) -> None:
    """Wait until the processes have ended; terminate those that have not, then kill them."""
    _, alive = psutil.wait_procs(alive, timeout=ENDING)
    for insist in (psutil.Process.terminate, psutil.Process.kill):
        for each in alive:
            with suppress(psutil.NoSuchProcess):
                insist(each)
        _, alive = psutil.wait_procs(alive, timeout=ENDING)
