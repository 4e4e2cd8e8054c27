"""Start a program that outlives its starter, recognise it later, stop it and no other; let this one write nowhere else, and count what it asks of a store.

Why a mark and not a pid: pids are reused within hours, and a creation time shifts when the clock is corrected, after
which the project would not recognise its own broker. An argument on the program's command line that no other program
has is proof in both cases. It also finds a program whose starter was killed before it recorded the pid, and one whose
record was deleted.

A notebook runs what is typed: Python, DuckDB, Spark. Each has a hundred ways to write a file, so none of them is asked: the
kernel of the operating system refuses, by Linux's Landlock. It needs no privilege, holds for every program that is started
afterwards, the JVM among them, and cannot be taken back. Reading, programs and the network are as before. Elsewhere nothing
is barred, and the caller says so.

Linux has it since 5.13, but bars the emptying of a file (``truncate``) only since 6.2: half a barrier is refused, because who
believes in it loses a table. No version bars what changes no content: ``chmod`` and ``chown``, times (``utime``), extended
attributes (``setxattr``), each of a file's owner alone. A notebook that must not do these either gets a user of its own.

Why by ctypes: the three calls have no function in Python, and the packages that wrap them are not kept up.
"""

import ctypes
import json
import os
import platform
import select
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Self, TypeAlias

import psutil

from strandline.core.errors import DefinitionError
from strandline_infra.programs import HOST

# Enough to run a JVM, and nothing from the caller: an option in the caller's JAVA_TOOL_OPTIONS would otherwise
# work until another user starts the broker. UTF-8, because folders have names in every language.
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
ENTER_AND_BECOME = 'cd -- "$0" && exec "$@"'
EVERY = 0.02
ENDING = 2.0
LEAVING = 20.0
"""Seconds for what a program has started to end after it."""


def spawn(
    command: Sequence[str],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str] = ENVIRONMENT,
) -> int:
    """Start a program in a folder and a session of its own; its output is appended to a log.

    ``subprocess.Popen`` would warn, when it is collected, that its child still runs; here the child should run.
    """
    # The shell enters the folder and then becomes the program, which keeps the pid.
    shell = ["/bin/sh", "-c", ENTER_AND_BECOME, str(folder), *command]
    return os.posix_spawn(
        shell[0],
        shell,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        # Python ignores SIGPIPE, and a child inherits that.
        setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM),
    )


def child(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start a program of the project in a session of its own, to be ended by its starter; its output is appended to a log.

    Args:
        command: The program with its arguments.
        log: The log.
        environment: Its environment; that of this process when absent.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=None if environment is None else dict(environment),
        )


def watching(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a program in a session of its own whose standard input ends with this process, however that ends."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def run(command: Sequence[str], *, folder: Path) -> tuple[bool, str]:
    """Run a program to its end; return whether it succeeded, and its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode == 0, done.stdout


def is_ours(pid: int, mark: str) -> bool:
    """Return whether a process has the mark as one of its arguments and has not ended.

    A process that is ending loses its arguments first and closes its files last. This waits for it, because its
    successor needs the port and the lock among those files.
    """
    deadline = time.monotonic() + ENDING
    while True:
        _reap(pid)
        arguments = _arguments(pid)
        if arguments or has_ended(pid) or time.monotonic() > deadline:
            return mark in arguments
        time.sleep(EVERY)


def find(mark: str) -> int | None:
    """Return a process that has the mark as one of its arguments."""
    return next((pid for pid in psutil.pids() if mark in _arguments(pid)), None)


def started_at(pid: int) -> datetime | None:
    """Return when a process was started, by the clock as it is now; None when it is gone."""
    try:
        return datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC)
    except psutil.Error:
        return None


def stop(pid: int, mark: str, *, patience: float, descendants: bool = False) -> bool:
    """Terminate the marked process, kill it after a while, and return whether it ran.

    Args:
        pid: The process.
        mark: Its mark.
        patience: Seconds until it is killed.
        descendants: Whether what it has started ends with it. A JVM ends by itself once its Python has gone, unless it is
            suspended or hangs: then it kept the leases of all tables, and no successor could start.
    """
    theirs = family(pid) if descendants else []
    if not _send(signal.SIGTERM, pid, mark):
        return False
    for each in theirs:  # a suspended one hears nothing, and kept its leases
        with suppress(psutil.Error):
            each.resume()
    if not _gone_within(patience, pid, mark):
        _send(signal.SIGKILL, pid, mark)
        _gone_within(patience, pid, mark)
    for each in _left_after(LEAVING, theirs):
        with suppress(psutil.Error):
            each.kill()
    _left_after(LEAVING, theirs)
    return True


def family(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; an empty list when it is gone."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _send(number: signal.Signals, pid: int, mark: str) -> bool:
    if not is_ours(pid, mark):
        return False
    with suppress(ProcessLookupError):  # it ended between the check and the signal
        os.kill(pid, number)
    return True


def _gone_within(seconds: float, pid: int, mark: str) -> bool:
    deadline = time.monotonic() + seconds
    while is_ours(pid, mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(EVERY)
    return True


def _left_after(seconds: float, started: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Wait until processes have ended, and return those that have not; one without a parent may stay a zombie."""
    deadline = time.monotonic() + seconds
    while left := [each for each in started if each.is_running() and not has_ended(each.pid)]:
        if time.monotonic() > deadline:
            break
        time.sleep(EVERY)
    return left


def _arguments(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:  # gone, a zombie, or another user's
        return []


def has_ended(pid: int) -> bool:
    """Return whether a process is gone or a zombie."""
    _reap(pid)
    try:
        process = psutil.Process(pid)
        # A zombie that still has other threads holds their files open.
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.Error:
        return True


def _reap(pid: int) -> None:
    # A child of this process that ended stays a zombie until it is waited for; no other process can be waited for.
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


# The process that holds something, recorded with its start so that a later process with the same pid differs.
#
# Why not the pid alone: in a container every program has one of the first few pids, so after a restart a recorded pid
# exists again and belongs to another process. The start is recorded in ticks since the machine started, which no
# correction of the clock changes.
#
# Locks are record locks (``lockf``), because the JVM takes such ones (jobs/strandline/engine/lake/locks.py).


STARTED_AT = 19
"""The field of /proc/PID/stat, counted after the program's name, which may contain spaces."""


def own() -> dict[str, Any]:
    """Return the record of this process."""
    pid = os.getpid()
    return {"pid": pid, "host": socket.gethostname(), "started": started(pid)}


def started(pid: int) -> float | None:
    """Return the start of a process, as a number for comparisons only; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return float(stat.rpartition(")")[2].split()[STARTED_AT])
    except OSError:
        pass  # gone, or a system without such files
    try:
        return round(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def age() -> float:
    """Return for how many seconds this process has been there, by a clock that is never set; 0 on a system without one."""
    with suppress(OSError, AttributeError):
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        stat = Path("/proc/self/stat").read_text(errors="replace")
        ticks = int(stat.rpartition(")")[2].split()[STARTED_AT])
        return max(0.0, since_boot - ticks / os.sysconf("SC_CLK_TCK"))
    return 0.0


def is_there(holder: Mapping[str, Any]) -> bool | None:
    """Return whether a recorded process still runs; None when it runs on another host."""
    if holder.get("host") != socket.gethostname():
        return None
    pid = int(holder["pid"])
    if has_ended(pid):
        return False
    if holder.get("started") is None:  # recorded by a version without this field
        return None
    return bool(started(pid) == holder["started"])


# What each thread of a process has used, as the kernel counts it; the JVM names its threads to the kernel.


USED = slice(11, 13)
"""The fields of a thread's stat with its time in its own code and in the kernel's, counted after its name."""


def threads_of(pid: int) -> dict[tuple[int, str], tuple[str, float]]:
    """Return the name and the seconds of CPU of each thread of a process, by its number and its start; none where that is not known."""
    found: dict[tuple[int, str], tuple[str, float]] = {}
    with suppress(OSError):  # gone, or a system without such files
        tick = 1 / os.sysconf("SC_CLK_TCK")
        for each in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # it has ended since
                named, _, rest = (each / "stat").read_text(errors="replace").rpartition(")")
                values = rest.split()
                used = sum(map(int, values[USED])) * tick
                found[int(each.name), values[STARTED_AT]] = named.partition("(")[2], used
    return found


# What the kernel has killed for want of memory, because a process that it killed can say nothing about it.
#
# Why the machine's count and not the one of a cgroup: a container that is started again has a new cgroup, which counts
# from 0, and the machine counts what is killed for the bound of a container as well.


BOOT = Path("/proc/sys/kernel/random/boot_id")
COUNTS = Path("/proc/vmstat")


def killed_for_memory() -> dict[str, Any] | None:
    """Return how many processes the kernel has killed for want of memory since the machine started; None where it does not say."""
    try:
        counts = dict(line.split() for line in COUNTS.read_text().splitlines())
        return {"boot": BOOT.read_text().strip(), "count": int(counts["oom_kill"])}
    except (OSError, KeyError, ValueError):
        return None


def has_killed_since(before: Mapping[str, Any] | None) -> bool:
    """Return whether it is known that the kernel has killed a process for want of memory since a count was taken."""
    now = killed_for_memory()
    if not before or now is None or before.get("boot") != now["boot"]:
        return False
    return bool(now["count"] > before["count"])


# Ctrl-C that waits for the end of a portion.
#
# An interrupt in the middle of a portion would make the truth wrong by an event. So the first one is only
# recorded, and the former handler is restored, so that a second one interrupts at once.


class Interrupt:
    """Records the first SIGINT inside a ``with`` block."""

    def __init__(self) -> None:
        """Begin without an interrupt."""
        self.asked = False

    def __enter__(self) -> Self:
        """Install the handler; only the main thread can, so in other threads nothing changes."""
        self._is_ours = threading.current_thread() is threading.main_thread()
        if self._is_ours:
            self._former = signal.signal(signal.SIGINT, self._record)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the former handler."""
        self._restore()

    def _record(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._former)
            self._is_ours = False


# Letting other programs of the machine go first.
#
# A nice value counts within a session of programs only, where the kernel groups them (``sched_autogroup_enabled``, the default of
# most distributions), and each JVM of the project has a session of its own. So the group is given the value as well.


NICE = 10
"""A tenth of the share of a program that does not give way; with 15 a server took two minutes to start on a machine whose cores had
nine programs each."""


def let_give_way(pid: int, nice: int = NICE) -> None:
    """Let a program give way with all of its threads; as a group too, where the kernel has groups and it has one of its own.

    One that is typed shares the group of its terminal's shell, which would stay slow after it.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, nice)  # of all threads on macOS, of the first on Linux
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
    with suppress(OSError):
        if os.getsid(pid) == pid:
            Path(f"/proc/{pid}/autogroup").write_text(f"{nice}\n")


# Ports on loopback: whether one is free, and which.


def refuse_taken(port: int | None) -> None:
    """Refuse a port that is taken; None means any port and is never refused.

    Raises:
        DefinitionError: The port cannot be used.
    """
    if port is None:
        return
    try:
        bind(port)
    except (OSError, OverflowError) as error:
        raise DefinitionError(
            f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}",
            hint="name another port with --port; without it a free port is used.",
            port=port,
        ) from error


def free(wanted: int, *, but: int | None = None) -> int:
    """Return the wanted port, or any other that is free, ``but`` one that is given away already and not taken yet."""
    try:
        found = bind(wanted)
    except OSError:
        found = bind(0)
    return free(0, but=but) if found == but else found


def bind(port: int) -> int:
    """Bind a port for a moment, any free one for 0, and return its number."""
    with socket.socket() as probe:
        # As Java does: a port is taken by a listener, not by connections that are still closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        return int(probe.getsockname()[1])


# A program that works for another ends with it, however that one ends.
#
# A verification that is killed with SIGKILL can end nothing any more: its stream went on, with a JVM, a lease and a scratch lake,
# until a person found it. So a program that was started for the length of another's work is given the record of its starter, and
# watches it. Linux says at once when that process is gone, without a look in between; elsewhere it is looked for. Spark's JVM then
# ends as its standard input does.
#
# Not by ``PR_SET_PDEATHSIG``: that is sent when the *thread* ends that started the program.


VARIABLE = "_STRANDLINE_STARTER"
"""The environment's variable with the record of the process with which a program is to end."""

LOOKS_EVERY = 0.5
"""Seconds between two looks for a starter, on a system whose kernel does not say that it is gone."""


def tied() -> Mapping[str, str]:
    """Return the environment of a program that ends with this process; otherwise it is that of this one."""
    return {**os.environ, VARIABLE: json.dumps(own())}


def is_tied() -> bool:
    """Return whether this process ends with another."""
    return VARIABLE in os.environ


def end_with_starter() -> None:
    """End this process when its starter is gone, if it has one; what it starts itself is not tied by that."""
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return
    threading.Thread(target=_watch, args=(json.loads(text),), name="starter", daemon=True).start()


def _watch(starter: Mapping[str, object]) -> None:

    if hasattr(os, "pidfd_open"):
        with suppress(OSError):  # gone, or a kernel of before 5.3
            watched = os.pidfd_open(int(str(starter["pid"])))
            if is_there(starter) is not False:  # or another process has its number by now
                select.select([watched], [], [])
    while is_there(starter):
        time.sleep(LOOKS_EVERY)
    # Nothing waits for its result, and its lake is a scratch folder.
    os.kill(os.getpid(), signal.SIGKILL)


CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the calls, which are the same on all processors that came after them."""

VERSION, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38

WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 13))
"""Writing, removing and making files, folders, links, sockets and pipes."""
REFER = 1 << 13
BARRED = CHANGES | REFER | TRUNCATE
LEAST = 3
"""The first version of Landlock that knows all of these."""
NOT_BARRED = "modes, owners, times and extended attributes of files (chmod, chown, utime, setxattr)"
"""What a session may still change of files that are its user's."""


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def bar_writes(but: Iterable[Path]) -> bool:
    """Refuse all writing from now on, but below some folders; return whether this machine can.

    Args:
        but: Folders or files that exist.

    Raises:
        DefinitionError: The kernel bars a part of it only.
    """
    if platform.system() != "Linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    if version < 1:
        return False
    refuse_half(version)
    ruleset = library.syscall(
        CREATE_RULESET,
        ctypes.byref(ctypes.c_uint64(BARRED)),
        ctypes.c_size_t(8),
        ctypes.c_uint32(0),
    )
    _refuse_failed(ruleset)
    for path in but:
        allowed = BARRED if path.is_dir() else BARRED & (WRITE_FILE | TRUNCATE)
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = _Beneath(allowed, folder)
        _refuse_failed(
            library.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0))
        )
        os.close(folder)
    _refuse_failed(library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _refuse_failed(library.syscall(RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    os.close(ruleset)
    return True


def refuse_half(version: int) -> None:
    """Refuse a version of Landlock that lets files be emptied.

    Raises:
        DefinitionError: It does.
    """
    if version < LEAST:
        raise DefinitionError(
            f"this kernel bars a notebook from writing files, but not from emptying them (Landlock {version}, not {LEAST})",
            hint="use Linux 6.2 or newer, or work on a copy: `strandline snapshot` and `strandline restore`.",
            version=version,
        )


def _refuse_failed(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")


# Points of a batch at which a test ends it, as a kill ends the process that runs it (jobs/strandline/testing/ways.py).
#
# Which points matter is known where a batch passes them: before its first commit, between two, and after the last. Elsewhere than
# in a test no one waits there, and to pass a point is a look into an empty dictionary.


PLANNED, BEGUN, COMMITTED = "planned", "begun", "committed"
"""Spark has planned a batch; a commit is about to be written; a commit is written."""

_ENDS: dict[tuple[str, str], Callable[[], None]] = {}


def reached(point: str, place: object) -> None:
    """Pass a point of a batch of the table at a place; a test may end it here."""
    if _ENDS and (end := _ENDS.get((point, str(place)))) is not None:
        end()


def end_at(point: str, place: str, end: Callable[[], None]) -> None:
    """Let what passes a point call a function, which ends it."""
    _ENDS[point, place] = end


def go_on(point: str, place: str) -> None:
    """Let what passes a point go on."""
    _ENDS.pop((point, place), None)


# The requests that this process sends to a store by the client of Python, counted where they leave it (jobs/strandline/engine/lake/object_files.py).


Sent: TypeAlias = tuple[str, str, str]
"""What is asked, the lake, and the two folders at its top that the object is in; both empty for what lies in no lake."""


class Requests:
    """Counts requests until they are taken."""

    MOST = 10_000
    """Folders that are counted each for itself: it is bounded, also where the counts are never taken."""
    LAKES = 100

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._lakes: dict[str, None] = {}
        self._counted: Counter[Sent] = Counter()

    def watch(self, lake: str) -> None:
        """Count the folders of a lake each for itself; it is named by its bucket and its key."""
        with self._lock:
            self._lakes.setdefault(lake)
            if len(self._lakes) > self.LAKES:
                del self._lakes[next(iter(self._lakes))]

    def add(self, asked: str, address: str, times: int = 1) -> None:
        """Count requests for an object, or for what lies in a folder."""
        with self._lock:
            within = [lake for lake in self._lakes if address.startswith(f"{lake}/")]
            lake = max(within, key=len, default="")
            below = address.removeprefix(f"{lake}/").split("/") if lake else []
            of = (asked, lake, "/".join(below[:2]))
            known = of in self._counted or len(self._counted) < self.MOST
            self._counted[of if known else (asked, "", "")] += times

    def take(self) -> Counter[Sent]:
        """Return what was counted since the last time."""
        with self._lock:
            found, self._counted = self._counted, Counter()
        return found


REQUESTS = Requests()
"""Those of this process."""
