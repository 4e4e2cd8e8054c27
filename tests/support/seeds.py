"""Lakes that are costly to make: each is made once, by one worker of the suite, and copied for each test."""

import hashlib
from collections.abc import Callable

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import hold
from tests.support import engine, lakes


def copied(lake: Lake, name: str, make: Callable[[Lake], object]) -> Lake:
    """Fill a lake with what a function makes, or with a copy of what it made under the same name.

    Args:
        lake: Gets the copy.
        name: What is made; two that differ need two names.
        make: Fills an empty lake.
    """
    path = engine.shared() / "seeds" / hashlib.sha256(name.encode()).hexdigest()[:16]
    seed, draft = lakes.place(path), lakes.place(path.with_suffix(".draft"))
    with hold(Place.of(path.with_suffix(".lock"))):
        if not seed.exists():
            draft.remove()
            make(Lake(draft).open_for_writing())
            draft.move(seed)
    lakes.copy(seed, lake.root)
    return lake
