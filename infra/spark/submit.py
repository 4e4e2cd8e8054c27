"""What spark-submit is given as the program: the command line, whose words follow (infra/docs/cluster.md).

Spark puts the folder of this file before all others, so it has one of its own.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "quality")]

from jobs.cli.main import main  # noqa: E402  # found only now where nothing is installed

if __name__ == "__main__":
    main()
