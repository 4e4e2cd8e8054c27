"""Small files that other processes read while they are written."""

import os
from pathlib import Path


def put(file: Path, text: str) -> None:
    """Write a file; a reader sees the old text or the new, never a mix."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)
