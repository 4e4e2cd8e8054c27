"""``python -m strandline.cli``: the same as ``strandline``, for programs that know their Python and not its folder."""

from strandline.cli.main import main

main()
