"""``strandline deliver`` survives kills: a notice that is sent again is the same, and the counts add up to the alerts."""

import signal
import time
from collections import defaultdict
from pathlib import Path
from subprocess import Popen

import pytest

from strandline.alerting.tables import bronze
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from strandline.engine.service.condition import receivers
from tests.cli.inside import strandline
from tests.cli.typed import start
from tests.faults.lives import PATIENCE, kill
from tests.support import lakes
from tests.support.notices import Receiver, alert, receiving, send

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

(TOPIC,) = bronze.TABLE.topics
RULES = 3
ALERTS = 3_000


def test_a_kill_before_an_acceptance_is_stored_sends_the_same_notice_again(
    fresh: Place, address: str
) -> None:
    """The receiver kills its sender twice, when it has the notice and before it answers."""
    send(address, TOPIC.name, (alert(n, f"r{n % RULES}") for n in range(ALERTS)))
    with receiving() as receiver:
        lives = [_killed(receiver, fresh), _killed(receiver, fresh)]
        receiver.status = lambda: 200
        process = _started(receiver, fresh)
        deadline = time.monotonic() + PATIENCE
        while sum(_by_id(receiver).values()) < ALERTS:
            assert process.poll() is None, _log(fresh).read_text()[-3000:]
            assert time.monotonic() < deadline, _log(fresh).read_text()[-3000:]
            time.sleep(0.05)
        second = strandline(*_words(receiver), "--once", "--lake", fresh)
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)

    assert code == 0, _log(fresh).read_text()[-3000:]
    assert second.code == 3
    assert f"already, by process {process.pid}" in second.err
    assert [life.returncode for life in lives] == [-signal.SIGKILL] * 2
    texts = defaultdict(set)
    for notice in receiver.got:
        texts[notice["delivery_id"]].add(str(notice))
    assert {len(each) for each in texts.values()} == {1}
    assert len(receiver.got) > len(texts)
    (books,) = receivers(Lake(fresh))
    assert (books["read"], books["delivered"], books["waiting"]) == (ALERTS, ALERTS, 0)
    assert books["process"] is None


def _words(receiver: Receiver) -> tuple[object, ...]:
    return ("deliver", "--to", receiver.address, "--every", "1s", "--from-beginning")


def _started(receiver: Receiver, lake: Place) -> "Popen[bytes]":
    return start(*_words(receiver), "--json", "--lake", lake, log=_log(lake))


def _killed(receiver: Receiver, lake: Place) -> "Popen[bytes]":
    """Return a process that was killed while it delivered."""
    process = _started(receiver, lake)

    def status() -> int:
        for one in family(process.pid):
            kill(one)
        return 200

    receiver.status = status
    process.wait(PATIENCE)
    return process


def _by_id(receiver: Receiver) -> dict[str, int]:
    """Return the counts of the notices, each notice once."""
    return {notice["delivery_id"]: notice["count"] for notice in list(receiver.accepted)}


def _log(lake: Place) -> Path:
    return lakes.beside(lake, ".deliver.log")
