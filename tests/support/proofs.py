"""Proofs that are long by nature: hundreds of kills, hundreds of logs. The suite runs their short form, ``make prove`` the long one.

``make prove`` keeps what it saw in tests/proofs.md, so that a reader need not wait for hours to know.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

REPORT = Path(__file__).parents[1] / "proofs.md"
HEAD = """# Long proofs

What `make prove` saw last: each test in its long form, which the suite runs in a short one.

| test | how often | seconds | outcome |
|---|---|---|---|
"""

Times: TypeAlias = Callable[[int, int], int]
"""Chooses between the number of the short form and that of the long one."""


class Proofs:
    """Runs the long forms alone, and writes the report; a plugin of pytest."""

    def __init__(self, share: float) -> None:
        """Begin with an empty report.

        Args:
            share: How much of the long form; a tenth of it is more than the short one, and ends within the hour.
        """
        self._share = share
        self._often: dict[str, int] = {}
        self._rows: list[str] = []

    def chosen(self, test: str, short: int, long: int) -> int:
        """Return the number of the long form, and note it."""
        self._often[test] = max(short, round(self._share * long))
        return self._often[test]

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what has no long form; give the others all the time there is."""
        others = [item for item in items if not item.get_closest_marker("prove")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.get_closest_marker("prove")]
        for item in items:
            item.add_marker(pytest.mark.timeout(0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended."""
        if report.when == "call":
            often = self._often.get(report.nodeid, 1)
            name = report.nodeid.removeprefix("tests/")
            self._rows.append(f"| {name} | {often:,} | {report.duration:,.0f} | {report.outcome} |")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report, on the day that the proof ended."""
        if self._rows:
            day = time.strftime("%-d %B %Y")
            seed_line = f"\n{day}, seed {session.config.getoption('randomly_seed', None)}.\n"
            REPORT.write_text(HEAD + "\n".join(sorted(self._rows)) + "\n" + seed_line)
