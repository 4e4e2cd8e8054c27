"""A program that does not come to its end after a signal is ended, with what it has started."""

import subprocess
import sys

import psutil
import pytest

from strandline.core.errors import TransientError

pytestmark = pytest.mark.whole

GUARDED = """
import os, signal, subprocess, sys, threading
from strandline.cli import main

asked = main.asked(within=1.0)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait(100)
"""
GONE = """
import atexit, os, signal
from strandline.cli import main
from strandline.engine.runtime import jvm

class Breaks:
    def __del__(self, kill=os.kill, of=os.getpid(), how=signal.SIGSEGV):
        kill(of, how)

def fails(words):
    print("unflushed")
    raise {error}

breaks = Breaks()
atexit.register(lambda: print("sent at the end"))
main._prepare = fails
main.main()
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


@pytest.mark.parametrize("error", ["jvm.gone()", "jvm.deaf()"])
def test_a_program_whose_jvm_is_gone_ends_with_its_exit_code_whatever_the_interpreters_end_does(
    error: str,
) -> None:
    """A stream ended with -11, after it had printed the right sentence: its threads were still there when the interpreter went."""
    done = subprocess.run(
        [sys.executable, "-c", GONE.format(error=error)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == TransientError.exit_code, done
    assert "Spark's JVM " in done.stderr
    assert done.stderr.count("hint:") == 1
    # What is registered for the end of a program, such as what is still to be sent, is done all the same, and what it prints arrives.
    assert done.stdout == "unflushed\nsent at the end\n"
