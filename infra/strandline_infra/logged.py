"""Runs a program quietly: its output goes to a log, and a failure shows the end of that log.

Why the program inherits the lock: when set-up is killed, pip or Ivy runs on and still writes. It then
still holds the lock as well, so the next set-up waits for it instead of working in the same folder.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TAIL = 12
MOST = 5_000_000
"""Bytes of the log; a longer one is put aside before the next program, and the one that was aside goes."""


class SetupError(Exception):
    """A step of set-up failed."""

    def __init__(self, message: str, *, hint: str, tail: str = "") -> None:
        """Keep the message, the hint and the last lines of the log apart."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.tail = tail

    def __str__(self) -> str:
        """Return the message, the end of the log, and the hint."""
        parts = (self.message, self.tail, f"hint: {self.hint}")
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs the programs of set-up."""

    log: Path
    lock: int | None = None

    def __call__(self, command: Sequence[str | Path], *, doing: str, hint: str) -> None:
        """Run a program to its end.

        Raises:
            SetupError: It ended with an error, or could not be started.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > MOST:
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        with self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n".encode())
            log.flush()
            start = log.tell()
            try:
                status = subprocess.run(
                    [str(part) for part in command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=() if self.lock is None else (self.lock,),
                    check=False,
                ).returncode
            except OSError as error:
                raise SetupError(f"{doing} failed: {error}", hint=hint) from error
        if status != 0:
            raise SetupError(f"{doing} failed.", hint=hint, tail=self._tail(start))

    def _tail(self, start: int) -> str:
        written = self.log.read_bytes()[start:].decode(errors="replace")
        lines = [line.rstrip() for line in written.splitlines() if line.strip()]
        return "\n".join(f"  {line}" for line in lines[-TAIL:])
