"""``python -m jobs.cli``: the same as ``strandline``, for programs that know their Python and not its folder."""

from jobs.cli.main import main

main()
