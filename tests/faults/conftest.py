"""A broker of its own for each test that breaks something, and events on their way."""

from collections.abc import Iterator
from typing import Any

import pytest

from strandline.engine.lake.place import Place
from tests.cli.inside import succeeded
from tests.faults.disk import outcomes


@pytest.fixture
def fresh(anywhere: Place) -> Iterator[Place]:
    """Return a lake whose broker runs."""
    lake = anywhere / "lake"
    succeeded("up", "--lake", lake)
    yield lake
    succeeded("down", "--lake", lake)


@pytest.fixture
def address(fresh: Place) -> str:
    """Return where the broker is."""
    status: Any = succeeded("status", "--lake", fresh, "--json").json
    return str(status["kafka"])


@pytest.fixture(autouse=True)
def _outcomes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the outcomes of faults when the long proofs run."""
    monkeypatch.setattr(outcomes, "is_long", request.config.pluginmanager.has_plugin("proofs"))
