"""Refuse an object store on which two writers would overwrite each other, before the first write to a lake.

All that keeps writers apart there rests on ``If-None-Match`` and ``If-Match``. A server, or a proxy before it, that ignores
these headers looks fine until two writers meet, and then loses a commit without an error. So it is asked once a lake and
address to create an object that is there, and to replace one that has changed; that it refused both is remembered in the lake.
"""

import hashlib
from uuid import uuid4

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.settings import store_options
from strandline.engine.storage.place import Place

FOLDER = "_store"
"""The folder of a lake with what was seen of its store."""


def refuse_unsafe(root: Place, *, remembers: bool = True) -> None:
    """Refuse a store that does not honour conditions.

    Args:
        root: The lake.
        remembers: Whether to write down in the lake that it does, and to believe that another time.

    Raises:
        DefinitionError: It does not.
    """
    address = hashlib.sha256((store_options().endpoint or "").encode()).hexdigest()[:12]
    mark = root / FOLDER / f"{address}.json"
    if remembers and mark.is_file():
        return
    if not _honours_conditions(root / FOLDER / f"probe-{uuid4().hex}"):
        raise DefinitionError(
            f"the object store of {root} ignores If-None-Match or If-Match, so of two writers the second would overwrite "
            "what the first has committed",
            hint="choose a store that honours both, as Amazon S3, SeaweedFS and versitygw do, and no proxy that drops headers.",
            lake=str(root),
        )
    if remembers:
        mark.put('{"honours": ["If-None-Match", "If-Match"]}\n')


def _honours_conditions(probe: Place) -> bool:
    try:
        first = probe.exchange("created", None)
        is_created_once = first is not None and probe.exchange("created again", None) is None
        is_replaced = probe.exchange("replaced", first) is not None
        return is_created_once and is_replaced and probe.exchange("replaced late", first) is None
    finally:
        probe.remove()
