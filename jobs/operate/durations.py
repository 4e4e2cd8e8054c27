"""A length of time as people write it: 500ms, 5s, 1m, 2h, 7d. Alone, because what parses one starts at once."""

from jobs.core.errors import DefinitionError

UNITS = (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0))


def seconds(text: str) -> float:
    """Parse a length of time.

    Raises:
        DefinitionError: It is not one.
    """
    for suffix, factor in UNITS:
        digits = text.removesuffix(suffix)
        if text.endswith(suffix) and digits.replace(".", "", 1).isdigit() and float(digits) > 0:
            return float(digits) * factor
    raise DefinitionError(
        f"{text!r} is no length of time", hint="write it like 500ms, 5s, 1m, 2h or 7d."
    )
