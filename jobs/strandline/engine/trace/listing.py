"""What ``SHOW TABLES`` and ``information_schema`` list in a query: the tables of the lake, and no view below them.

DuckDB would also list the views with drawn names from which a table's view is made. So a question that lists is rewritten to
views that leave these out, under the columns that DuckDB and the standard give.
"""

from typing import Any

from strandline.core.errors import DefinitionError
from strandline.engine.storage.duckdb_session import Duck, literal
from strandline.engine.trace.named_tables import SCHEMAS

Node = dict[str, Any]

DESCRIBED = "information_schema"
"""The schema in which SQL describes the tables themselves."""

OWN = "_listing"
"""The schema of the views that list; a query cannot name it."""

NAMED_BY = {"tables": "table_schema", "columns": "table_schema", "schemata": "schema_name"}
"""The tables of ``information_schema`` that describe a lake, and their column with the schema."""

SHOWN = {'"tables"': "names", "__show_tables_expanded": "details"}
"""What DuckDB calls ``SHOW TABLES`` and ``SHOW ALL TABLES``, and our view of each."""

LISTS = """
    CREATE VIEW _listing.names AS
    SELECT table_schema || '.' || table_name AS name FROM _listing.tables ORDER BY ALL;

    CREATE VIEW _listing.details AS
    SELECT
        table_schema AS schema,
        table_name AS name,
        list(column_name ORDER BY ordinal_position) AS column_names,
        list(data_type ORDER BY ordinal_position) AS column_types
    FROM _listing.columns GROUP BY ALL ORDER BY ALL;
"""


def rewrite_list(node: Node) -> bool:
    """Let a node that lists tables read the view that lists them; return whether it was one.

    Raises:
        DefinitionError: It asks for what a lake has not.
    """
    if node.get("type") == "SHOW_REF" and node["query"] is None:
        schema = node["schema_name"].lower()
        name = f"names of {schema}" if schema in SCHEMAS else SHOWN.get(node["table_name"])
        if name is None:
            raise DefinitionError(
                f"there is no {schema} whose tables could be listed"
                if schema
                else "a query has one database",
                hint=f"SHOW TABLES, or SHOW TABLES FROM one of {', '.join(SCHEMAS)}.",
            )
    elif node.get("type") == "BASE_TABLE" and node["schema_name"].lower() == DESCRIBED:
        name = node["table_name"].lower()
        if name not in NAMED_BY:
            raise DefinitionError(
                f"a lake has no {DESCRIBED}.{name}",
                hint=f"it has {', '.join(f'{DESCRIBED}.{each}' for each in NAMED_BY)}.",
            )
    else:
        return False
    alias, place = node.get("alias") or node.get("table_name") or "", node["query_location"]
    node.clear()
    node |= {
        "type": "BASE_TABLE",
        "alias": alias.strip('"'),
        "sample": None,
        "query_location": place,
        "schema_name": OWN,
        "table_name": name,
        "column_name_alias": [],
        "catalog_name": "",
        "at_clause": None,
    }
    return True


def make_lists(duck: Duck) -> None:
    """Make the views that list."""
    known = ", ".join(map(literal, SCHEMAS))
    duck.execute(f"CREATE SCHEMA {OWN}")
    for name, column in NAMED_BY.items():
        rows = f"FROM {DESCRIBED}.{name} WHERE {column} IN ({known})"
        duck.execute(f"CREATE VIEW {OWN}.{name} AS {rows}")
    for each in SCHEMAS:
        rows = f"FROM {OWN}.tables WHERE table_schema = {literal(each)} ORDER BY ALL"
        duck.execute(f'CREATE VIEW {OWN}."names of {each}" AS SELECT table_name AS name {rows}')
    duck.execute(LISTS)
