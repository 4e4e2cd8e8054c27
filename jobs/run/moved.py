"""A checkpoint that lies elsewhere than where Spark made it: after a promotion or its undo, or in a copied lake.

Of an operator with state of its own (transformWithState) Spark 4.2 writes down the whole path of the file with the
state's columns, and reads it there again: the first batch after a promotion failed, because the shadow in which the
state was made is gone. Everything else in a checkpoint is found from where the checkpoint lies.
"""

import json
from pathlib import Path
from typing import Any

STATE = "/state/"
PATHS = "stateSchemaFilePaths"


def settle(checkpoint: Path) -> None:
    """Let a checkpoint name its files where they lie now; nothing is written where it does."""
    for file in checkpoint.glob("state/*/_metadata/v2/[0-9]*"):
        version, told = file.read_text().split("\n", 1)
        operator = json.loads(told)
        if _settled(operator, checkpoint.absolute()):
            draft = file.with_name(f".{file.name}.draft")
            draft.write_text(f"{version}\n{json.dumps(operator, separators=(',', ':'))}")
            file.with_name(f".{file.name}.crc").unlink(
                missing_ok=True
            )  # it is that of the old text
            draft.replace(file)


def _settled(operator: dict[str, Any], checkpoint: Path) -> bool:
    """Put the paths of an operator right, and tell whether one was wrong."""
    was = json.dumps(operator)
    for store in operator["stateStoreInfo"]:
        store[PATHS] = [_here(path, checkpoint) for path in store.get(PATHS, ())]
    return json.dumps(operator) != was


def _here(path: str, checkpoint: Path) -> str:
    place = checkpoint / "state" / path.rpartition(STATE)[2]
    return f"file:{place}" if place.exists() else path
