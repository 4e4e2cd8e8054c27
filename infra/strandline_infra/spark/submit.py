"""What spark-submit is given as the program: the command line, whose words follow (infra/docs/cluster.md).

Spark puts the folder of this file before all others, so it has one of its own.
"""

import sys
from pathlib import Path

INFRA = Path(__file__).parents[2]
"""The folder with this package: in a clone each package has one of its own, side by side; a wheel has all in one."""
FOLDERS = (INFRA, *(INFRA.parent / each for each in ("jobs", "quality", "orchestration")))
sys.path[:0] = map(str, FOLDERS)

from strandline.cli.main import main  # noqa: E402  # found only now where nothing is installed

if __name__ == "__main__":
    main()
