"""The jars of SQL's functions ``linear_…``: re2j, and what is compiled from ``infra/strandline_infra/spark/linear/*.scala``.

Set-up makes them; where a clone was brought up to date without it, the first Spark that starts does.
"""

from pathlib import Path

from strandline_infra.scala import Compiled

FUNCTIONS = "strandline.LinearFunctions"
"""The extension of Spark that brings the functions."""
ONLY = "strandline.LinearOnly"
"""The extension that lets a session run these alone: Spark's own become them, LIKE as well."""

JARS = Compiled(
    fetched="linear",
    name="linear-functions",
    sources=sorted((Path(__file__).parent / "spark" / "linear").glob("*.scala")),
)
