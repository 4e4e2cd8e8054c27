"""What people write, parsed: a length of time (500ms, 5s, 1m, 2h, 7d), a place in Kafka. Alone, because what parses one starts at once."""

from strandline.core.errors import DefinitionError

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


def placed(at: str | None) -> tuple[str, int, int] | None:
    """Parse a place in Kafka.

    Raises:
        DefinitionError: It is not one.
    """
    if at is None:
        return None
    topic, *numbers = at.rsplit("/", 2)
    if not topic or len(numbers) != 2 or not all(each.isdigit() for each in numbers):  # noqa: PLR2004  # partition and offset
        raise DefinitionError(
            f"--at {at!r} is no place in Kafka",
            hint="write topic/partition/offset, such as device-telemetry/0/17.",
        )
    return topic, int(numbers[0]), int(numbers[1])
