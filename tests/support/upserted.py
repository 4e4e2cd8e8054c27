"""A table of windows whose stream emits each whenever it changes, to compare with the one that emits it once."""

from dataclasses import fields

from strandline.core.table import Upserted, Windowed


def upserted(table: Windowed, *, name: str = "") -> Upserted:
    """Return a table with the same windows, that emits updates; under a name of its own it lives beside the other."""
    same = {
        each.name: getattr(table, each.name)
        for each in fields(Upserted)
        if hasattr(table, each.name)
    }
    return Upserted(**{**same, "name": name or table.name})
