"""Run a command under the recorder, and get its journal; or halt it, or fail it, at a change of the disk."""

import mmap
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from strandline.engine.runtime.processes import family
from tests.cli.typed import ENVIRONMENT, Answer
from tests.faults.disk.journal import Record, records
from tests.support import engine

HERE = Path(__file__).parent
SHARED = struct.Struct("<iiqqqqq")
NEVER = -1
FOREVER = 2**62
PATIENCE = 400.0


def recorder(folder: Path) -> Path:
    """Compile the recorder, unless it is there; skip the test where there is no compiler."""
    library = folder / "recorder.so"
    if library.exists():
        return library
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("only Linux with a C compiler can record what a program does to the disk")
    draft = library.with_suffix(f".{os.getpid()}")
    source = str(HERE / "recorder.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(draft), source], check=True)
    draft.rename(library)
    return library


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Runs commands on one lake and keeps what they change.

    Args:
        lake: The lake's folder.
        folder: Where the recorder and its journal are.
        halt: The number of the change before which all stops, to be killed; none when ``NEVER``.
        fault: The errno of the changes that fail.
        failing: Which ones fail: the first, and the one after the last.
        env: More of the environment.
    """

    lake: Path
    folder: Path
    halt: int = NEVER
    fault: int = 0
    failing: tuple[int, int] = (0, 0)
    env: Mapping[str, str] = field(default_factory=dict)

    def run(self, *words: object) -> tuple[Answer | None, list[Record]]:
        """Run a command to its end, or to the change before which it is killed; then there is no answer."""
        shared, journal = self.folder / "shared", self.folder / "journal"
        shared.write_bytes(SHARED.pack(0, 0, 0, self.halt, *self.failing, self.fault))
        journal.write_bytes(b"")
        out, err = self.folder / "out", self.folder / "err"
        with out.open("wb") as one, err.open("wb") as two:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.disk.marked", *map(str, words)],
                env=self._environment(shared, journal),
                cwd=HERE.parents[2],
                stdin=subprocess.DEVNULL,
                stdout=one,
                stderr=two,
            )
        code = self._ended(process, shared)
        found = records(journal)
        if code is None:
            return None, found
        return Answer(code, out.read_text(), err.read_text()), found

    def _environment(self, shared: Path, journal: Path) -> dict[str, str]:
        preload = {
            "LD_PRELOAD": str(recorder(engine.shared())),
            "DISK_ROOT": str(self.lake),
            "DISK_JOURNAL": str(journal),
            "DISK_SHARED": str(shared),
        }
        return {**ENVIRONMENT, "STRANDLINE_LAKE": str(self.lake), **self.env, **preload}

    def _ended(self, process: "subprocess.Popen[bytes]", shared: Path) -> int | None:
        deadline = time.monotonic() + PATIENCE
        with shared.open("r+b") as file, mmap.mmap(file.fileno(), SHARED.size) as memory:
            while process.poll() is None:
                if struct.unpack_from("<i", memory, 4)[0] or time.monotonic() > deadline:
                    kill(process)
                    assert time.monotonic() < deadline, "the command does not end"
                    return None
                time.sleep(0.02)
        return process.returncode


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all that it started."""
    victims = family(process.pid)
    for one in victims:
        one.kill()
    process.wait()
    psutil.wait_procs(victims, timeout=60)


def changed(journal: Sequence[Record]) -> int:
    """Return how many changes a journal has."""
    return sum(each.kind != "m" for each in journal)
