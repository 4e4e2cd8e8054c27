"""Typing the command line as a person or a program does: the real program, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROGRAM = str(Path(sys.executable).with_name("strandline"))
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE_")
}
ESCAPE = "\x1b"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        """Return the answer as a program reads it."""
        return json.loads(self.out)

    @property
    def printed(self) -> str:
        """Return everything that was printed, on both streams."""
        return self.out + self.err

    def succeeded(self) -> "Answer":
        """Return the answer, having seen that the program succeeded."""
        assert self.code == 0, self.printed
        return self


def strandline(
    *words: object,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 400,
    program: str = PROGRAM,
) -> Answer:
    """Run the program, or another, to its end."""
    done = subprocess.run(
        [program, *map(str, words)],
        env={**ENVIRONMENT, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def succeeded(*words: object, env: Mapping[str, str] | None = None, timeout: float = 400) -> Answer:
    """Run the program and see that it succeeded."""
    return strandline(*words, env=env, timeout=timeout).succeeded()


def start(
    *words: object, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start the program in a session of its own, its output in a log."""
    with log.open("ab") as stream:
        return subprocess.Popen(
            [PROGRAM, *map(str, words)],
            env={**ENVIRONMENT, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
