"""Alerts survive kills: each is in gold once, and what is raised again has the id that it had."""

import json
import random
import signal
import time
from pathlib import Path
from shutil import copy
from typing import Any

import psutil
import pytest

from strandline.alerting.alert_rule import rules_folder
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from tests.cli.inside import strandline, succeeded
from tests.faults.alerting import Sent, log, raised, raising, wait_for
from tests.faults.lives import kill
from tests.support.feeds import DECODES
from tests.support.proofs import Times

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(3600), pytest.mark.whole]

TABLES = ("bronze.alerts", "silver.alerts", "gold.alerts")


@pytest.mark.prove
def test_kills_at_random_moments_lose_no_alert_and_double_none(
    fresh: Place, address: str, tmp_path: Path, times: Times
) -> None:
    """Between checkpoints, during one, and while it starts; and the last life outlasts its broker."""
    kills = times(1, 50)
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)  # noqa: S311  # moments, not secrets
    rules = tmp_path / "rules"
    rules.mkdir()
    copy(rules_folder() / DECODES.origin, rules)
    sent = Sent(address)
    for number in range(kills):
        with raising(fresh, rules) as process:
            sent.some()
            if number % 2 == 0:  # the others are killed while they start or read
                wait_for(address, sent.expected, fresh, process)
                sent.some()
            time.sleep(chance.uniform(0, 4))
            victims = family(process.pid)
            print(f"seed {seed}, life {number + 1}")  # noqa: T201  # shown when the test fails
            for one in victims:
                kill(one)
            psutil.wait_procs(victims, timeout=60)
    with raising(fresh, rules) as process:
        sent.some()
        wait_for(address, sent.expected, fresh, process)
        beside = strandline("alerts", rules, "--lake", fresh)
        assert beside.code == 3, beside.printed
        assert f"has a writer already: process {process.pid}" in beside.err
        succeeded("down", "--lake", fresh)
        succeeded("up", "--lake", fresh)
        sent.some()
        wait_for(address, sent.expected, fresh, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log(fresh).read_text()[-3000:]

    found = raised(address)
    assert found.keys() == sent.expected
    succeeded("run", *TABLES, "--lake", fresh)
    there = Lake(fresh)
    answer: Any = succeeded(
        "query", "SELECT alert_id FROM gold.alerts", "--lake", there.root, "--json"
    ).json
    ids = [row["alert_id"] for row in answer]
    assert sorted(ids) == sorted(sent.expected)
    sheets: Any = succeeded("ledger", "--lake", fresh, "--json").json
    by_table = {sheet["table"]: sheet for sheet in sheets}
    assert (
        by_table["live.process_events"]["rows"]
        == found.total()
        == by_table["bronze.alerts"]["read"]
    )
    assert by_table["silver.alerts"]["duplicates"] == found.total() - len(found)
    assert json.loads(there.feeds_beat.text() or "{}")["alive"] is False
