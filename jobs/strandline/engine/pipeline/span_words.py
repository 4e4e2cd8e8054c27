"""A span of time in two words that a person can act on."""

from datetime import timedelta

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(length: timedelta) -> str:
    """Return a span in its two largest units.

    >>> span(timedelta(hours=27, minutes=5))
    '1 d 3 h'
    >>> span(timedelta(seconds=59.6))
    '59 s'
    """
    left = max(0, int(length.total_seconds()))
    counts = []
    for unit, seconds in UNITS:
        count, left = divmod(left, seconds)
        counts.append((count, unit))
    first = next((n for n, (count, _) in enumerate(counts) if count), len(counts) - 1)
    largest = [f"{count} {unit}" for count, unit in counts[first : first + 2]]
    return " ".join(each for n, each in enumerate(largest) if n == 0 or not each.startswith("0 "))
