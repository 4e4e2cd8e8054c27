"""Proofs that are long by nature: hundreds of kills, hundreds of logs. The suite runs their short form, ``make prove`` the long one.

``make prove`` keeps what it saw in tests/proofs.md, so that a reader need not wait for hours to know. It may be run in
parts, or be ended early: what is there already about other tests stays.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.commit import commit

REPORT = Path(__file__).parents[1] / "proofs.md"
HEAD = """# Long proofs

What `make prove` saw last: each test in its long form, which the suite runs in a short one.

| test | how often | seconds | outcome | day, seed, commit |
|---|---:|---:|---|---|
"""

Times: TypeAlias = Callable[[int, int], int]
"""Chooses between the number of the short form and that of the long one."""


class Proofs:
    """Runs the long forms alone, and keeps the report; a plugin of pytest."""

    def __init__(self, share: float) -> None:
        """Begin without a test.

        Args:
            share: How much of the long form; a tenth of it is more than the short one.
        """
        self._share = share
        self._often: dict[str, int] = {}
        self._seed: object = None

    def chosen(self, test: str, short: int, long: int) -> int:
        """Return the number of the long form, and note it."""
        self._often[test] = max(short, round(self._share * long))
        return self._often[test]

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what has no long form; give the others all the time there is."""
        self._seed = config.getoption("randomly_seed", None)
        commit()  # before hours of proofs
        others = [item for item in items if not item.get_closest_marker("prove")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.get_closest_marker("prove")]
        for item in items:
            item.add_marker(pytest.mark.timeout(0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep how a test ended, in place of what was known about it."""
        if report.when == "call":
            often = self._often.get(report.nodeid, 1)
            name = report.nodeid.removeprefix("tests/")
            when = f"{time.strftime('%-d %B %Y')}, {self._seed}, {commit()}"
            ended = f"{often:,} | {report.duration:,.0f} | {report.outcome} | {when} |"
            others = [line for line in _rows() if not line.startswith(f"| {name} |")]
            REPORT.write_text(HEAD + "\n".join(sorted([*others, f"| {name} | {ended}"])) + "\n")


def _rows() -> list[str]:
    """Return the lines of the report about tests."""
    lines = REPORT.read_text().splitlines() if REPORT.exists() else []
    return [line for line in lines if "::" in line]
