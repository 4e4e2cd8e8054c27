"""The log of what was shown unmasked: who asked, when, why, and for what. One line a question, beside the lake's other logs."""

import json
from collections.abc import Mapping
from datetime import datetime

from strandline.core.errors import DefinitionError
from strandline.engine.storage.lake import Lake


def write_down(
    lake: Lake, asked: Mapping[str, str | None], *, who: str, at: datetime, why: str
) -> None:
    """Log a question before it is answered unmasked.

    Raises:
        DefinitionError: No reason is given.
    """
    if not why.strip():
        raise DefinitionError(
            "sensitive columns are shown for a reason only",
            hint='give the reason: --unmasked "fraud case 17"',
        )
    line = {"at": at.isoformat(timespec="seconds"), "who": who, "why": why, **asked}
    lake.log("unmasked").append(json.dumps(line, ensure_ascii=False))
