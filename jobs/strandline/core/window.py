"""The length of a window, from the text that Spark reads."""

from datetime import timedelta

UNITS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")


def length_of(text: str) -> timedelta:
    """Return the length that a text such as ``10 minutes`` or ``INTERVAL 1 HOUR 30 MINUTES`` means.

    A month has no length: Spark refuses it in a window as well. pandas, which could read the text, takes longer to
    import than a look-up takes.

    Raises:
        ValueError: The text has another form, or the length is not positive.
    """
    words = text.lower().removeprefix("interval ").split()
    pairs = list(zip(words[::2], words[1::2], strict=True))
    counts = [(f"{unit.rstrip('s')}s", float(count)) for count, unit in pairs]
    if any(unit not in UNITS for unit, _ in counts):
        message = f"{text!r} has a unit beside {', '.join(UNITS)}"
        raise ValueError(message)
    length = sum((timedelta(**{unit: count}) for unit, count in counts), timedelta(0))
    if length <= timedelta(0):
        message = f"{text!r} is no length of time"
        raise ValueError(message)
    return length
