"""Tables with scores of the example's model, and what a query finds of rows and alerts."""

from fleet.models.unusual_traffic import MODEL
from strandline.engine.lake.lake import Lake
from tests.cli.typed import succeeded

TABLES = ("bronze.network_connections", "silver.network_connections", MODEL.of.id)
ALERTS = ("bronze.alerts", "silver.alerts", "gold.alerts")

RAISED = """
    SELECT json_extract_string(event_key, '$.connection_id') AS id,
           json_extract_string(event, '$.model_version') AS version,
           CAST(json_extract(event, '$.score') AS DECIMAL(18,6)) AS score
    FROM gold.alerts WHERE rule_id = 'model-unusual_traffic'
"""
"""The alerts of the model, each with its connection, and with the version and the score in it."""


def asked(lake: Lake, sql: str) -> list[tuple[str, ...]]:
    """Return the rows of a query, as texts."""
    found = succeeded("query", sql, "--lake", lake.root, "--format", "json").json
    assert isinstance(found, list)
    return [tuple(str(value) for value in row.values()) for row in found]
