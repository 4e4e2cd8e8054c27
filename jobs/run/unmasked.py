"""Who saw sensitive columns in the clear, when, why, and what was asked: a line each, beside the lake's other logs."""

import json
from datetime import datetime

from jobs.core.errors import DefinitionError
from jobs.run.lake import Lake


def write_down(lake: Lake, sql: str, *, who: str, at: datetime, why: str) -> None:
    """Note a question before it is answered in the clear.

    Raises:
        DefinitionError: No reason is given.
    """
    if not why.strip():
        raise DefinitionError(
            "sensitive columns are shown for a reason only",
            hint='say it: strandline query --unmasked "fraud case 17" "SELECT …"',
        )
    file = lake.log("unmasked")
    file.parent.mkdir(parents=True, exist_ok=True)
    told = {"at": at.isoformat(timespec="seconds"), "who": who, "why": why, "sql": sql}
    with file.open("a", encoding="utf-8") as log:
        log.write(json.dumps(told, ensure_ascii=False) + "\n")
