"""Lakes that are costly to make: each is made once, by one worker of the suite, and copied for each test."""

import hashlib
import shutil
from collections.abc import Callable

from jobs.engine.storage.file_lock import hold
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place
from tests.support import engine


def copied(lake: Lake, name: str, make: Callable[[Lake], object]) -> Lake:
    """Fill a lake with what a function makes, or with a copy of what it made under the same name.

    Args:
        lake: Gets the copy.
        name: What is made; two that differ need two names.
        make: Fills an empty lake.
    """
    seeds = engine.shared() / "seeds"
    seeds.mkdir(exist_ok=True)
    seed = seeds / hashlib.sha256(name.encode()).hexdigest()[:16]
    with hold(Place.of(seed.with_suffix(".lock"))):
        if not seed.exists():
            draft = seed.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            make(Lake(draft).open_for_writing())
            draft.rename(seed)
    shutil.copytree(seed, lake.root.local, dirs_exist_ok=True)
    return lake
