"""A program that does not come to its end after a signal is ended, with what it has started."""

import subprocess
import sys

import psutil

from jobs.core.errors import TransientError

GUARDED = """
import os, signal, subprocess, sys, threading
from jobs.cli import stopping

asked = stopping.asked(within=1.0)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait(100)
"""


def test_whatever_it_waits_for_it_ends() -> None:
    """A call of the JVM that never returns kept it for ever; SIGTERM was heard, and changed nothing."""
    done = subprocess.run(
        [sys.executable, "-c", GUARDED],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == TransientError.exit_code
    assert "not ended 1 s after it was asked to" in done.stderr
    number = int(done.stdout)
    if psutil.pid_exists(number):
        psutil.Process(number).wait(20)
