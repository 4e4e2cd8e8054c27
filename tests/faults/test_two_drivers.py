"""On an object store, of each cloud's kind, two Spark drivers write one table, and none of their commits is lost; one that was suspended is fenced."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from fleet.bronze import user_actions as bronze
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import entry_at, latest_version
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from tests.support.clouds import Cloud
from tests.support.lossy_proxy import losing
from tests.support.proofs import Times
from tests.support.store_driver import StoreDriver

TABLE = bronze.TABLE
LIFE = 1.5

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def drivers(in_cloud: Place, tmp_path: Path) -> Iterator[list[StoreDriver]]:
    """Return two drivers over one lake; their leases are short."""
    environment = {"STRANDLINE_LEASE": str(LIFE)}
    found = [
        StoreDriver(str(in_cloud), TABLE, tmp_path / f"{name}.log", environment) for name in "ab"
    ]
    yield found
    for each in found:
        each.end()


@pytest.mark.prove(alone="a minute and a half")
def test_each_commit_of_two_drivers_is_there_and_each_version_once(
    drivers: list[StoreDriver], in_cloud: Place, times: Times
) -> None:
    """None of Delta's own log stores does this on S3: they lost 1 to 70 of 200, and no writer saw an error."""
    count = times(10, 200)
    drivers[0].ask("make")

    for name, driver in zip("ab", drivers, strict=True):
        driver.order("append", writer=name, times=count)
    assert [driver.answer() for driver in drivers] == [count, count]

    table = _table(in_cloud)
    assert table.version() == 2 * count
    rows = sorted((row["writer"], row["number"]) for row in table.to_pyarrow_table().to_pylist())
    assert rows == [(name, number) for name in "ab" for number in range(count)]
    assert [tuple(row) for row in drivers[0].ask("rows")] == rows


@pytest.mark.prove
def test_of_eight_writers_of_one_version_one_wins_also_where_answers_are_lost(
    cloud: Cloud, in_cloud: Place, tmp_path: Path, times: Times
) -> None:
    """A commit whose answer was lost is the writer's own, and is not reported as lost."""
    asked = set[str]()

    def loses(line: str) -> bool:
        if not line.startswith("PUT ") or "_delta_log" not in line or line in asked:
            return False
        asked.add(line)
        return len(asked) % 2 == 0

    rounds = times(6, 100)
    with losing(cloud.address, loses) as proxy:
        environment = cloud.through(proxy.address)
        driver = StoreDriver(str(in_cloud), TABLE, tmp_path / "a.log", environment)
        try:
            written = driver.ask("write", first=0, count=rounds)
            before = proxy.lost
            won = driver.ask("race", first=rounds, rounds=rounds)
        finally:
            driver.end()

    path = Lake(in_cloud).table(TABLE)
    assert before >= rounds // 2
    assert written == ["won"] * rounds
    assert won == [1] * rounds
    assert [commit_file(path, n).text() for n in range(rounds)] == [
        f"only {n}\n" for n in range(rounds)
    ]


@pytest.mark.whole
def test_a_file_of_a_checkpoint_is_new_once_and_is_whole_or_not_there(
    in_cloud: Place, tmp_path: Path
) -> None:
    """Equal bytes are one's own, whose answer was lost; what is cancelled is never there; a large one is uploaded in parts."""
    driver = StoreDriver(str(in_cloud), TABLE, tmp_path / "a.log", {})
    path = Lake(in_cloud).table(TABLE)
    large = "0123456789" * 2_000_000
    try:
        plan = [
            driver.ask("plan", name="offsets/0", content=content, is_new=True)
            for content in ("mine", "another's", "mine")
        ]
        found = [driver.ask("is_planned", name=f"offsets/{number}") for number in range(2)]
        for is_new in (True, False):
            driver.ask("plan", name="offsets/1", content="half", is_new=is_new, is_kept=False)
        for content in ("first", large):
            assert driver.ask("plan", name="state", content=content, is_new=False) == "won"
    finally:
        driver.end()

    assert plan == ["won", "lost", "won"]
    assert found == [True, False]
    assert (path / "offsets" / "0").text() == "mine"
    assert (path / "offsets" / "1").text() is None
    assert (path / "state").text() == large


@pytest.mark.prove(alone="half a minute")
def test_a_writer_that_was_suspended_for_longer_than_its_lease_is_fenced(
    drivers: list[StoreDriver], in_cloud: Place, times: Times
) -> None:
    """It goes on in the middle of its batch; what it wrote is refused, and the other's rows are there once."""
    rounds = times(1, 20)
    drivers[0].ask("make")
    acknowledged = []
    for number in range(rounds):
        suspended, other = drivers[number % 2], drivers[1 - number % 2]
        assert suspended.ask("take") is None
        assert suspended.ask("begin", writer="suspended", number=number) is None
        suspended.signal(signal.SIGSTOP)
        begun = time.monotonic()
        assert other.ask("take") is None
        assert time.monotonic() - begun >= LIFE
        # Half of the rounds the other has committed a batch when the suspended one goes on.
        if number % 4 < 2:
            acknowledged.append(_committed(other, number))
        suspended.signal(signal.SIGCONT)
        refused = suspended.ask("commit")
        assert refused["error"] == "FencedError", refused
        # It begins anew, as a stream would whose batch has failed; its lease is another's all the same.
        assert suspended.ask("begin", writer="suspended", number=number) is None
        assert suspended.ask("commit")["error"] == "FencedError"
        if number % 4 >= 2:
            acknowledged.append(_committed(other, number))
        assert suspended.ask("leave") is None
        assert other.ask("leave") is None

    table = _table(in_cloud)
    found = [(row["writer"], row["number"]) for row in table.to_pyarrow_table().to_pylist()]
    assert sorted(found) == [("other", number) for number in range(rounds)]
    path = Lake(in_cloud).table(TABLE)
    epochs = [entry.epoch for v in acknowledged if (entry := entry_at(path, v))]
    assert epochs == sorted(epochs)
    assert all(epochs)
    assert latest_version(path) == table.version()


def _committed(driver: StoreDriver, number: int) -> int:
    assert driver.ask("begin", writer="other", number=number) is None
    version = driver.ask("commit")
    assert isinstance(version, int), version
    return version


def _table(in_cloud: Place) -> DeltaTable:
    return opened(Lake(in_cloud).table(TABLE))
