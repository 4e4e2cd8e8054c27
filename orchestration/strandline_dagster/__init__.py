"""WHEN: the only package that imports dagster.

In a Dagster of your own: ``definitions`` to be merged with yours, ``StrandlineComponent`` for ``dg``, ``TableIOManager`` by which
your assets read tables (infra/docs/dagster.md).
"""

from strandline_dagster.component import StrandlineComponent
from strandline_dagster.placed import definitions
from strandline_dagster.reading import TableIOManager

__all__ = ["StrandlineComponent", "TableIOManager", "definitions"]
