"""The program ``strandline``, and ``python -m strandline.cli``: where a hook of git waits, nothing but that verb is imported."""

import sys


def main() -> None:
    """Run what was typed."""
    words = sys.argv[1:]
    if words[:1] == ["lint"] and not any(each.startswith("-") for each in words):
        # All of the command line takes half a second to import, and Spark's frames with it.
        from strandline.operate.lint import hook  # noqa: PLC0415  # as above

        if (code := hook(words[1:])) is not None:
            sys.exit(code)
    from strandline.cli.main import main as run  # noqa: PLC0415  # as above

    run()


if __name__ == "__main__":
    main()
