"""How imported history is marked: its partition, its number in bronze's order, and the mode of its commits.

A row of a file has no place in Kafka. It gets one that no broker gives: partition -1 of its topic, and as its offset the
number of rows that were imported for that topic before it. So every part of the engine that follows an offset follows an
imported row too, and the ledger's own check, that a range begins where the one before it ended, holds for files.

All imported rows have the batch -1 and so come before every commit of Kafka's records, among each other in the order of
their arrival: which copy of an event counts does not depend on when, or in which order, files were imported.
"""

IMPORT = "import"
"""The mode of a commit that brings in rows of a file; streams pass over it."""

PARTITION = -1
BATCH = -1


def part_of_imports(topic: str) -> str:
    """Return the name of the partition of a topic's imported rows, as a ledger entry has it."""
    return f"{topic}/{PARTITION}"


def is_imported(part: str) -> bool:
    """Return whether a partition, as a ledger entry names it, has imported rows."""
    return part.endswith(f"/{PARTITION}")
