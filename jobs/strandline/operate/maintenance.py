"""Maintenance of a lake: what it may do, what a machine that is gone held, and what belongs to nothing."""

import time
from datetime import timedelta

from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.read.table_versions import let_go
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.service.maintain import Left, Policy, left, take_away
from strandline.operate.words import seconds

GENTLE = 10
"""By how much the process lowers its priority, so that a stream on the same cores goes first."""


def release(where: Lake, host: str, *, go: bool) -> list[str]:
    """Let go what a machine held of which a person says that it is gone, and return who held it; only return it without ``go``.

    Raises:
        DefinitionError: It is this machine, of whose processes we know which are gone.
    """
    if host == own()["host"]:
        raise DefinitionError(
            f"{host} is this machine: what a process of it that is gone held is free already",
            hint="`strandline maintain --dry-run` names the process that still holds something; end that one.",
        )
    return list(let_go(where.root, host, go=go))


def policy_of(keep: str, most: str, *, go: bool = True) -> Policy:
    """Return what maintenance may do: how long replaced files stay, and how long it may take from now on."""
    until = time.monotonic() + seconds(most)
    return Policy(
        keep=timedelta(seconds=seconds(keep)), is_over=lambda: time.monotonic() > until, go=go
    )


def orphans(where: Lake, *, go: bool) -> list[Left]:
    """Return what killed batches left behind; with ``go`` it is taken away."""
    found = list(left(where, clock.now()))
    for each in found if go else ():
        take_away(each)
    return found
