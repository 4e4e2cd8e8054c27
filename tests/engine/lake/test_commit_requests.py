"""On an object store each request is money and time: a warm commit takes few, and as many in a longer log.

The whole of a micro-batch is counted by ``python -m tests.benchmarks.store_requests``, layer by layer.
"""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from fleet.bronze import user_actions as bronze
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import PACKED, commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from tests.support.counted_requests import Requests, counting, request_of
from tests.support.s3_server import BUCKET, S3Server
from tests.support.store_driver import StoreDriver

pytestmark = pytest.mark.whole

TABLE = bronze.TABLE
COMMITS = 2
TAKES = {"PUT": 5, "LIST": 1, "GET": 1, "HEAD": 3, "DELETE": 1}
"""Of one commit. Written are its file of rows, the commit, its checksum, and the turn, which is taken and released. The newest version
is listed, the lease read. Delta asks for the file of rows twice and for the commit once. The last is an old checksum."""


@pytest.fixture(scope="module")
def counted(
    s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[StoreDriver, Requests, Place]]:
    """Return a driver that writes a table, its requests, and the table."""
    bucket, log = f"s3a://{BUCKET}/{uuid4().hex}", tmp_path_factory.mktemp("driver") / "a.log"
    with counting(s3.address) as requests:
        environment = {"AWS_ENDPOINT_URL": requests.address, "STRANDLINE_LEASE": "3600"}
        driver = StoreDriver(bucket, TABLE, log, environment)
        driver.ask("make")
        driver.ask("take")
        yield driver, requests, Lake(Place.of(bucket)).table(TABLE)
        driver.end()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_warm_commit_takes_few_requests_and_no_more_in_a_longer_log(
    counted: tuple[StoreDriver, Requests, Place],
) -> None:
    """The log grows by two checkpoints of Delta meanwhile."""
    driver, requests, path = counted
    _commit(driver, COMMITS)
    young = _counted(driver, requests)
    _grow(path, 2 * PACKED - 1)
    # The first writes a checkpoint; the next finds it, and from then on the log is read from there.
    _commit(driver, COMMITS)
    old = _counted(driver, requests)

    assert latest_version(path) > 2 * PACKED
    assert old == young
    assert {method: n / COMMITS for method, n in young.items()} == TAKES


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_file_of_a_checkpoint_is_one_request_and_of_two_writers_of_a_new_one_one_wins(
    counted: tuple[StoreDriver, Requests, Place],
) -> None:
    """Equal bytes are one's own, whose answer was lost; what is cancelled is never there; what may be replaced is."""
    driver, requests, path = counted
    before = requests.all()

    assert driver.ask("plan", name="offsets/0", content="mine", is_new=True) == "won"
    assert [each.method for each in (requests.all() - before).elements()] == ["PUT"]
    assert driver.ask("plan", name="offsets/0", content="another's", is_new=True) == "lost"
    assert driver.ask("plan", name="offsets/0", content="mine", is_new=True) == "won"
    assert (path / "offsets" / "0").text() == "mine"

    before = requests.all()
    found = [
        driver.ask("is_planned", name=name) for name in ("offsets/0", "offsets/1", "offsets", "no")
    ]
    assert found == [True, False, True, False]
    looks = (requests.all() - before).elements()
    assert [each.method for each in looks if each.key[-1].isdigit()] == ["HEAD", "HEAD"]

    for is_new in (True, False):
        driver.ask("plan", name="offsets/1", content="half", is_new=is_new, is_kept=False)
    assert (path / "offsets" / "1").text() is None

    for content in ("first", "second"):
        assert driver.ask("plan", name="state", content=content, is_new=False) == "won"
    assert (path / "state").text() == "second"


def test_a_request_is_known_by_its_head() -> None:
    """A listing by its prefix, a removal of many by its question, a copy by its source, a program by its name."""
    agent = "\r\nUser-Agent: Hadoop 3.5.0, aws-sdk-java/2.35.4"
    log = "a/bronze/t/_delta_log"

    listed = request_of(f"GET /lakes?list-type=2&prefix={log}/ HTTP/1.1{agent}")
    read = request_of(f"GET /lakes/{log}/{7:020d}.json HTTP/1.1\r\nuser-agent: object_store/0.12")
    removed = request_of("POST /lakes?delete HTTP/1.1")
    copied = request_of("PUT /lakes/a/b HTTP/1.1\r\nx-amz-copy-source: lakes/a/c")

    assert (listed.method, listed.part, listed.program) == ("LIST", "folder of a log", "Hadoop")
    assert (read.method, read.part, read.program) == ("GET", "commit of a log", "obstore")
    assert (removed.method, copied.method) == ("DELETE", "COPY")


def _commit(driver: StoreDriver, times: int) -> None:
    for number in range(times):
        assert driver.ask("begin", writer="a", number=number) is None
        driver.ask("commit")


def _counted(driver: StoreDriver, requests: Requests) -> Counter[str]:
    """Count the requests of some commits by their method."""
    before = requests.now()
    _commit(driver, COMMITS)
    found: Counter[str] = Counter()
    for (method, _, _), n in (requests.now() - before).items():
        found[method] += n
    return found


def _grow(path: Place, version: int) -> None:
    """Write commits without rows up to a version, several at a time: each is a request."""

    def one(number: int) -> bool:
        info = {
            "commitInfo": {"timestamp": number, "operation": "WRITE", "operationParameters": {}}
        }
        return commit_file(path, number).create(json.dumps(info) + "\n")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(latest_version(path) + 1, version + 1)))
