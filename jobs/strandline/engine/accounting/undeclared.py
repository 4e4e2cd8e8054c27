"""Tables that a lake has and no module declares: each was deleted from the project, renamed there, or is of another project.

Nothing feeds, maintains or repairs them, their rows are in no answer, and what their columns mean is not known. So they are named
where a person looks, and a request to forget, which could not find in them whom it means, is refused.
"""

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table

NAMED = 3
"""So many are named in a sentence."""


def undeclared(lake: Lake) -> list[str]:
    """Return their names; three folders are listed, and no log is read."""
    known = {table.id for table in catalog.tables()}
    return [
        f"{layer}.{name}"
        for layer in Layer
        for name in (lake.root / layer).names()
        if f"{layer}.{name}" not in known and is_table(lake.root / layer / name)
    ]


def listed(names: list[str]) -> str:
    """Return the first of some names, and how many more there are: of another project's lake it is all of them."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def remedy(name: str) -> str:
    """Return what to do about one of them."""
    return (
        f"bring its module back; if it is to be read and no longer fed, `strandline retire {name}`, and leave the module where it "
        f"is. `strandline retire {name} --delete` removes it from the lake, for good."
    )


def refuse_undeclared(lake: Lake) -> None:
    """Refuse a request to forget that would pass over a table.

    Raises:
        DefinitionError: The lake has one that no module declares.
    """
    if found := undeclared(lake):
        raise DefinitionError(
            f"the lake has {listed(found)}, which no module declares, so what a request means there is not known",
            hint=remedy(found[0]),
            tables=found,
        )
