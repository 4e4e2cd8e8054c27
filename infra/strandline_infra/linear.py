"""The jars of SQL's functions of ours, ``linear_…``, ``strict_json`` and ``json_kind``: re2j, and what is compiled from ``infra/strandline_infra/spark``.

They are one jar, because every session has all of them, and each jar is one more file that a class is searched in.
Set-up makes them; where a clone was brought up to date without it, the first Spark that starts does.
"""

from pathlib import Path

from strandline_infra.scala import Compiled

FUNCTIONS = "strandline.LinearFunctions,strandline.StrictFunctions,strandline.KindFunctions"
"""The extensions of Spark that bring the functions."""
ONLY = "strandline.LinearOnly"
"""The extension that lets a session run these alone: Spark's own become them, LIKE as well."""

JARS = Compiled(
    fetched="linear",
    name="linear-functions",
    sources=[
        each
        for folder in ("linear", "strict", "kinds")
        for each in sorted((Path(__file__).parent / "spark" / folder).glob("*.scala"))
    ],
)
