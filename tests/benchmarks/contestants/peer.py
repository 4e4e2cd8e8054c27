"""A peer in another program: a process that takes commands, a line each, and answers each with a line.

What it does with them is in the folder ``jvm``, or ``python`` where it needs packages that ours cannot be beside. The process ends with
this one, whose end closes its stdin.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks import kit
from tests.benchmarks.contestants.contestant import (
    ADS,
    BRONZE,
    GOLD,
    SILVER,
    TELEMETRY,
    Place,
    Stop,
)
from tests.benchmarks.yahoo.ads import CAMPAIGN_OF

JOBS = {
    (BRONZE,): "ingest",
    (SILVER,): "clean",
    (GOLD,): "windows",
    TELEMETRY: "whole",
    ADS: "yahoo",
}
"""The job that fills some tables."""


class Peer:
    """A peer with its process."""

    language: str

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return what is started, and what its environment has beside this one's."""
        raise NotImplementedError

    def begin(self, log: Path) -> dict[str, str]:
        """Start the process, and return its versions."""
        command, more = self.command()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **more},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._campaigns = log.with_name(f"{log.stem}-campaigns.csv")
        self._campaigns.write_text("".join(f"{ad},{of}\n" for ad, of in CAMPAIGN_OF.items()))
        return {self.language: self._answer().removeprefix(f"{self.language} ")}

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Do the job that fills these tables."""
        assert self._process.stdin is not None
        where = (place.root, place.address, place.topic, place.variant)
        job = JOBS.get(names) or names[0]  # a query of NEXMark has the name of its job
        fields = (job, *where, self._campaigns, place.counted)
        self._process.stdin.write("\t".join(map(str, fields)) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if answer != "done":
            raise RuntimeError(answer)

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Refuse: it is measured to the end of a topic."""
        raise NotImplementedError(names, place)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip() or "failed: the process has ended"


class PythonPeer(Peer):
    """A peer in Python with an environment of its own, which has nothing of ours."""

    language = "python"
    name: str

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the interpreter below ours, without its packages, and a script of the folder ``python``."""
        script = Path(__file__).with_name("python") / f"{self.name}_peer.py"
        return [str(kit.PYTHON), "-s", "-S", str(script)], {
            "PYTHONPATH": str(kit.environment(self.name))
        }


class Bytewax(PythonPeer):
    """Bytewax, one worker."""

    name = "bytewax"


class Quix(PythonPeer):
    """Quix Streams, one application."""

    name = "quix"


class Pathway(PythonPeer):
    """Pathway, two threads."""

    name = "pathway"
