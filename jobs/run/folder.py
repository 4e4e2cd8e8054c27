"""Which folders can hold a lake: refused at the door, because the programs beneath fail late and say something else.

Spaces, quotes and umlauts are no trouble. What is refused was tried: delta-rs opens ``A`` when told ``%41`` and ends
in a panic at ``[``, DuckDB takes ``*`` and ``?`` for a pattern and would read the neighbours' files as well, Spark
divides its scratch folders at a comma, and Delta writes a folder into SQL between backticks.
"""

import re
import stat
from pathlib import Path

from jobs.core.errors import DefinitionError

MISREAD = re.compile(r"[\x00-\x1f\x7f\\,%*?^|\[\]{}`]")
LONGEST = 3_500
"""Bytes; a system's 4,096 less what state and scratch files of Spark are called below the lake."""
CHOOSE = "choose another folder with --lake or STRANDLINE_LAKE."


def refuse_folder(root: Path) -> None:
    """See that a lake can be in this folder, whether it is there yet or not.

    Raises:
        DefinitionError: It is a file, lies under one, or its name cannot be used.
    """
    misread = sorted(set(MISREAD.findall(str(root))))
    if misread:
        raise _refusal(root, f"of the sign {', '.join(map(repr, misread))} in it")
    if len(bytes(root)) > LONGEST:
        raise _refusal(root, f"it is longer than {LONGEST:,} bytes")
    try:
        kind = root.stat().st_mode
    except (
        FileNotFoundError,
        PermissionError,
    ):  # what may not be looked at is said when it is used
        return
    except OSError as error:
        raise DefinitionError(
            f"the lake folder {root} cannot be written: {error.strerror}",
            hint=CHOOSE,
            lake=str(root),
        ) from error
    if not stat.S_ISDIR(kind):
        raise DefinitionError(f"{root} is a file and no lake", hint=CHOOSE, lake=str(root))


def _refusal(root: Path, why: str) -> DefinitionError:
    return DefinitionError(
        f"the lake folder {root} cannot be used, because {why}", hint=CHOOSE, lake=str(root)
    )
