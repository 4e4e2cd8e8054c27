"""True rows: parsed, judged, deduplicated; one module a table."""
