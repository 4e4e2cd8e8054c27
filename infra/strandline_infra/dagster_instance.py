"""The configuration of Dagster's instance, of the parts in infra/strandline_infra/dagster."""

import sys
from pathlib import Path

PARTS = Path(__file__).parent / "dagster"
WORKSPACE = PARTS / "workspace.yaml"
"""Where the definitions are, and under which name Dagster knows them."""


def instance(*, in_database: bool) -> str:
    """Return the text of ``dagster.yaml``, with its history in PostgreSQL or in files."""
    names = ["dagster.yaml", "postgres.yaml"] if in_database else ["dagster.yaml"]
    return "".join((PARTS / name).read_text() for name in names)


if (
    __name__ == "__main__"
):  # where no `strandline ui` writes it: infra/kubernetes/base/patches/history.yaml
    Path(sys.argv[1]).write_text(instance(in_database=True))
