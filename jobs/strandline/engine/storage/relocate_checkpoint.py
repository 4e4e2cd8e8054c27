"""Repair a checkpoint that was moved: by a promotion or its undo, or in a copied lake.

For an operator with its own state (transformWithState) Spark 4.2 stores the absolute path of the file with the
state's schema, and reads it from there: the first batch after a promotion failed, because the shadow lake in which the
state was created is gone. All other paths in a checkpoint are relative to it.
"""

import json
from typing import Any

from strandline.engine.storage.place import Place

STATE = "/state/"
PATHS = "stateSchemaFilePaths"


def settle(checkpoint: Place) -> None:
    """Change the paths in a checkpoint to its present place; a correct checkpoint is not written."""
    for number in (checkpoint / "state").names():
        about = checkpoint / "state" / number / "_metadata" / "v2"
        for name in about.names():
            if name.isdigit():
                _settle_operator(about / name, checkpoint)


def _settle_operator(file: Place, checkpoint: Place) -> None:
    version, _, metadata = (file.text() or "").partition("\n")
    operator = json.loads(metadata)
    if _settled(operator, checkpoint):
        (file.parent / f".{file.name}.crc").remove()
        file.put(f"{version}\n{json.dumps(operator, separators=(',', ':'))}")


def _settled(operator: dict[str, Any], checkpoint: Place) -> bool:
    """Correct the paths of an operator; return whether one was wrong."""
    was = json.dumps(operator)
    for store in operator["stateStoreInfo"]:
        store[PATHS] = [_here(path, checkpoint) for path in store.get(PATHS, ())]
    return json.dumps(operator) != was


def _here(path: str, checkpoint: Place) -> str:
    place = checkpoint / "state" / path.rpartition(STATE)[2]
    if not place.exists():
        return path
    return f"file:{place}" if place.is_local else str(place)
