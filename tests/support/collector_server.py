"""OpenTelemetry's own collector on loopback: built from its modules, once for a clone; it prints each span that it received.

The protocol's other side is its makers' here, from the socket to the text, where tests/support/otlp.py is ours over their messages.
"""

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from strandline.engine.runtime.processes import bind
from strandline_infra.programs import HOST
from tests.architecture.tree import ROOT

SOURCE = Path(__file__).with_name("collector")
READY = "Everything is ready"
PATIENCE = 60.0
BUILT = 1200.0
"""Seconds within which it is built: a hundred modules are fetched and compiled, minutes on two cores."""
CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "{address}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
"""
HEAD = re.compile(r"^(?:Span|.*ResourceSpans) #\d+$", re.MULTILINE)
LINE = re.compile(r"^ {4}(Trace ID|Parent ID|ID|Name) *: ?(.*)$")
FACT = re.compile(r"^ {5}-> (\S+): \w+\((.*)\)$")


@dataclass(frozen=True, slots=True)
class Printed:
    """A span as the collector prints it."""

    trace: str
    id: str
    parent: str
    name: str
    facts: Mapping[str, str]


def program() -> Path:
    """Return the collector; it is built first where it is missing."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go here")
    files = sorted(each for each in SOURCE.iterdir() if each.suffix in {".go", ".mod"})
    mark = sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:16]
    folder = ROOT / ".cache/collector"
    found = folder / f"otelcol-{mark}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may want it at once
        if not found.exists():
            work = folder / "work"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            for each in files:
                shutil.copy(each, work)
            # By the sums of Go's own data base; its modules name all others.
            words = ("build", "-mod=mod", "-buildvcs=false", "-ldflags=-s -w", "-o", "otelcol", ".")
            subprocess.run([go, *words], cwd=work, check=True, timeout=BUILT)
            (work / "otelcol").rename(found)
    return found


class Collector:
    """A running one."""

    def __init__(self, address: str, log: Path) -> None:
        """Know where it listens and what it prints."""
        self.address = f"http://{address}"
        self._log = log

    @property
    def text(self) -> str:
        """Return all that it has printed."""
        return self._log.read_text()

    def spans(self) -> list[Printed]:
        """Return the spans that it has printed."""
        found = list[Printed]()
        for part in HEAD.split(self.text):
            lines = part.splitlines()
            own = dict(each.groups() for line in lines if (each := LINE.match(line)))
            facts = dict(each.groups() for line in lines if (each := FACT.match(line)))
            if own:  # no head of a group of spans
                ids = own["Trace ID"], own["ID"], own["Parent ID"]
                found.append(Printed(*ids, own["Name"], facts))
        return found


@contextmanager
def collecting(folder: Path) -> Iterator[Collector]:
    """Run one for the length of the block."""
    address, log, config = f"{HOST}:{bind(0)}", folder / "collector.log", folder / "config.yaml"
    config.write_text(CONFIG.format(address=address))
    made = program()
    with log.open("wb") as written:
        running = subprocess.Popen(
            [made, f"--config=file:{config}"],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            env={"PATH": os.environ["PATH"]},
            cwd=folder,
        )
    found = Collector(address, log)
    try:
        deadline = time.monotonic() + PATIENCE
        while READY not in found.text:
            assert running.poll() is None, found.text
            assert time.monotonic() < deadline, found.text
            time.sleep(0.1)
        yield found
    finally:
        running.kill()
        running.wait()
