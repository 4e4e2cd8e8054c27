"""``dagster dev`` with the webserver that has a door (webserver.py): ``python -m strandline_dagster.dev`` is what ``strandline ui`` starts.

``dagster dev`` starts its webserver by the name of a module, and has no setting for another.
"""

from collections.abc import Sequence
from typing import Any

from dagster._cli import dev

STARTS = "open_ipc_subprocess"
DAGSTERS, OURS = "dagster_webserver", "strandline_dagster.webserver"


def main() -> None:
    """Start Dagster's pages, its daemon and the code."""
    started = vars(dev)[STARTS]

    def start(words: Sequence[str], **options: Any) -> Any:  # noqa: ANN401  # handed on as they are
        return started([OURS if word == DAGSTERS else word for word in words], **options)

    vars(dev)[STARTS] = start
    dev.dev_command(prog_name="dagster dev", auto_envvar_prefix="DAGSTER_CLI_DEV")


if __name__ == "__main__":
    main()
