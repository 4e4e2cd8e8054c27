"""Refuse folders that cannot hold a lake at the start, because Spark, Delta and DuckDB fail late with another message.

Spaces, quotes and umlauts work. What is refused was tried: delta-rs opens ``A`` for ``%41`` and panics at ``[``, DuckDB
reads ``*`` and ``?`` as a pattern, which matches other files as well, Spark splits its scratch folders at a comma, and
Delta writes a folder into SQL between backticks.
"""

import os
import re
import stat

from strandline.core.errors import DefinitionError, LakeError
from strandline.engine.storage.place import Place

MISREAD = re.compile(r"[\x00-\x1f\x7f\\,%*?^|\[\]{}`]")
LONGEST = 3_500
"""Bytes; the system's limit of 4,096 less the names of Spark's state and scratch files below the lake."""
CHOOSE = "choose another folder with --lake or STRANDLINE_LAKE."


def refuse_folder(root: Place) -> None:
    """Refuse a folder that cannot hold a lake, whether it exists or not.

    Raises:
        DefinitionError: It is a file, lies under one, or its name cannot be used.
    """
    if not root.is_local:
        return
    misread = sorted(set(MISREAD.findall(str(root))))
    if misread:
        raise _refusal(root, f"its path contains {', '.join(map(repr, misread))}")
    if len(os.fsencode(root)) > LONGEST:
        raise _refusal(root, f"it is longer than {LONGEST:,} bytes")
    try:
        kind = root.local.stat().st_mode
    except FileNotFoundError:
        return
    except PermissionError:  # reported when the folder is used
        return
    except OSError as error:
        raise DefinitionError(
            f"the lake folder {root} cannot be written: {error.strerror}",
            hint=CHOOSE,
            lake=str(root),
        ) from error
    if not stat.S_ISDIR(kind):
        raise DefinitionError(f"{root} is a file, not a lake", hint=CHOOSE, lake=str(root))


def unwritable(root: Place, error: OSError) -> LakeError:
    """Return the error of a lake in which a file could not be written: a full disk passes, all else is the folder's."""
    # Not imported above: with Kafka's client it takes longer than most answers.
    from strandline.engine.runtime.outage import absence  # noqa: PLC0415  # as above

    return absence(error) or DefinitionError(
        f"the lake folder {root} cannot be written: {error.strerror}",
        hint="make the folder writable, or choose another with --lake or STRANDLINE_LAKE.",
        lake=str(root),
    )


def _refusal(root: Place, why: str) -> DefinitionError:
    return DefinitionError(
        f"the lake folder {root} cannot be used, because {why}", hint=CHOOSE, lake=str(root)
    )
