"""What spark-submit is given as the program: the command line, whose words follow (infra/docs/cluster.md).

Spark puts the folder of this file before all others, so it has one of its own.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobs.cli.main import main  # found only now where nothing is installed

if __name__ == "__main__":
    main()
