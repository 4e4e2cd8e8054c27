"""A program that works for another ends with it, however that one ends.

A verification that is killed with SIGKILL can end nothing any more: its stream went on, with a JVM, a lease and a scratch lake,
until a person found it. So a program that was started for the length of another's work is given the record of its starter, and
watches it. Linux says at once when that process is gone, without a look in between; elsewhere it is looked for. Spark's JVM then
ends as its standard input does.

Not by ``PR_SET_PDEATHSIG``: that is sent when the *thread* ends that started the program.
"""

import json
import os
import select
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

VARIABLE = "_STRANDLINE_STARTER"
"""The environment's variable with the record of the process with which a program is to end."""

EVERY = 0.5
"""Seconds between two looks for a starter, on a system whose kernel does not say that it is gone."""


def tied() -> Mapping[str, str]:
    """Return the environment of a program that ends with this process; otherwise it is that of this one."""
    from strandline.engine.runtime.processes import own  # noqa: PLC0415  # each command imports this module, and few need that

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
    from strandline.engine.runtime.processes import is_there  # noqa: PLC0415  # as above

    if hasattr(os, "pidfd_open"):
        with suppress(OSError):  # gone, or a kernel of before 5.3
            watched = os.pidfd_open(int(str(starter["pid"])))
            if is_there(starter) is not False:  # or another process has its number by now
                select.select([watched], [], [])
    while is_there(starter):
        time.sleep(EVERY)
    # Nothing waits for its result, and its lake is a scratch folder.
    os.kill(os.getpid(), signal.SIGKILL)
