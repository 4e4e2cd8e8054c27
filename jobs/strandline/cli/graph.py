"""A picture of the lake: from each topic through the tables, with rows and lag."""

from collections.abc import Sequence

from rich.markup import escape
from rich.tree import Tree
from strandline import catalog

from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.storage.lake import Lake


def picture(lake: Lake, found: Sequence[Balance]) -> Tree:
    """Draw the lake; a table that reads several others is drawn below the first and named below the rest."""
    tables = catalog.tables()
    sheets = {sheet.table: sheet for sheet in found}
    whole = Tree(escape(str(lake.root)))
    drawn: set[str] = set()
    for bronze in (table for table in tables if isinstance(table, Ingested)):
        topics = " + ".join(topic.name for topic in bronze.topics)
        _draw(whole.add(f"topic {escape(topics)}"), bronze, sheets, drawn)
    return whole


def _draw(above: Tree, table: Table, sheets: dict[str, Balance], drawn: set[str]) -> None:
    if table.id in drawn:
        above.add(f"{table.id} [dim](see above)[/dim]")
        return
    drawn.add(table.id)
    here = above.add(_line(table, sheets.get(table.id)))
    for reader in catalog.tables():
        if table in reader.upstream:
            _draw(here, reader, sheets, drawn)


def _line(table: Table, sheet: Balance | None) -> str:
    if sheet is None:
        return f"{table.id} [dim]never run[/dim]"
    parts = [f"{sheet.rows:,} rows"]
    if isinstance(table, Judged):
        parts.append(f"{sum(sheet.quarantined.values()):,} held")
    if not isinstance(table, Ingested):
        parts.append(f"lag {sheet.waiting:,}")
    return f"[bold]{table.id}[/bold] {', '.join(parts)}"
