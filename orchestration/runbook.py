"""The runbook, of which a failure shows the part that speaks of it: nobody searches for a page at 3 a.m."""

from pathlib import Path

FILE = Path(__file__).parents[1] / "infra" / "runbook.md"


def section(name: str) -> str:
    """Return the part of the runbook that has this name as its heading; all of it when none has."""
    text = FILE.read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n## {name}\n")
    part, _, _ = rest.partition("\n## ")
    return f"## {name}\n{part}" if found else text
