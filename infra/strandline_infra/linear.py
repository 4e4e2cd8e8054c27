"""The jars that every session has beside Spark's and Delta's: for SQL's functions ``linear_…``, and for the logs of tables on a disk.

They are re2j, and what is compiled from ``infra/strandline_infra/spark/linear/*.scala`` and ``…/local/*.scala`` as one jar.
Set-up makes them; where a clone was brought up to date without it, the first Spark that starts does.
"""

from pathlib import Path

from strandline_infra.scala import Compiled

FUNCTIONS = "strandline.LinearFunctions"
"""The extension of Spark that brings the functions."""
ONLY = "strandline.LinearOnly"
"""The extension that lets a session run these alone: Spark's own become them, LIKE as well."""
LOG_STORE = "strandline.LinkedLogStore"
"""The class by which Delta writes the log of a table on a disk."""

JARS = Compiled(
    fetched="linear",
    name="linear-functions",
    sources=[
        source
        for part in ("linear", "local")
        for source in sorted((Path(__file__).parent / "spark" / part).glob("*.scala"))
    ],
)
