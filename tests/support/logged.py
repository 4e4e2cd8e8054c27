"""What is logged, kept for a test to look at."""


class Logged:
    """Keeps what is logged."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.lines: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, *_: object, **figures: object) -> None:
        """Keep a record."""
        self.lines.append((event, figures))

    warning = error = info

    def all_of(self, event: str) -> list[dict[str, object]]:
        """Return the records of one kind."""
        return [figures for name, figures in self.lines if name == event]
