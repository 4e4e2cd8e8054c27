"""Sections of the runbook: a failure shows its own, so that no one has to search at 3 a.m."""

from pathlib import Path

FILE = Path(__file__).parents[1] / "infra" / "runbook.md"


def section(name: str) -> str:
    """Return the section with this heading; the whole runbook when there is none."""
    text = FILE.read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n## {name}\n")
    part, _, _ = rest.partition("\n## ")
    return f"## {name}\n{part}" if found else text
