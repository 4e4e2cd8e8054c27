"""A lake says in which form it is written: raised by the first who writes it, and by several at once each once."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from fleet.gold import device_signal_10m, ip_holds
from strandline.core.errors import DataError
from strandline.core.topic import RECEIVED
from strandline.engine.flow.preflight import FOLD, Cleared
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.flow.spark_plan import Operator, StatefulPlan
from strandline.engine.lake import lake as formats
from strandline.engine.lake.lake import STATE, Form, Lake, NewerLakeError
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import entry_at
from tests.support.by_hand import commit, create

pytestmark = pytest.mark.core

NO_JVM = cast(SparkSession, None)


def test_the_first_stream_with_a_fold_raises_it_and_another_one_does_not(lake: Lake) -> None:
    for table in (device_signal_10m.TABLE, ip_holds.TABLE):
        lake.checkpoint(table).make()
    plain = StatefulPlan(sources=(), operators=(Operator(kind="Aggregate", keys=()),))
    fold = StatefulPlan(sources=(), operators=(Operator(kind=FOLD, keys=()),))

    Cleared(plain, 0).record(device_signal_10m.TABLE, lake)
    before = lake.formats.text()
    Cleared(fold, 0).record(ip_holds.TABLE, lake)

    assert before is None
    (known,) = json.loads(lake.formats.text() or "").items()
    assert known[0] == STATE
    assert known[1]["number"] == formats.FORMS[STATE].number
    # One that goes on as it was has no plan, and raises what an older program left.
    lake.formats.remove_file()
    Cleared().record(device_signal_10m.TABLE, lake)
    assert lake.formats.text() is None
    Cleared().record(ip_holds.TABLE, lake)
    assert STATE in json.loads(lake.formats.text() or "")


@pytest.mark.whole
def test_what_another_kind_or_a_newer_program_wrote_stays(lake: Lake) -> None:
    lake.formats.put(json.dumps({STATE: 9, "letters": {"number": 2, "what": "x"}}))

    lake.raise_to(STATE)

    assert json.loads(lake.formats.text() or "") == {
        STATE: 9,
        "letters": {"number": 2, "what": "x"},
    }


def test_several_that_raise_at_once_lose_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [f"kind {number}" for number in range(6)]
    known = {kind: Form(number=1, what="", since="2026-11-26") for kind in kinds}
    monkeypatch.setattr(formats, "FORMS", known)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lake.raise_to, kinds))

    assert sorted(json.loads(lake.formats.text() or "")) == kinds


def test_no_lease_is_given_in_a_lake_of_a_newer_program_nor_in_a_rebuild_there(lake: Lake) -> None:
    """Whatever the verb: who writes a table holds its lease."""
    lake.formats.put(json.dumps({STATE: 99}))

    for place in (lake, Shadow.of(ip_holds.TABLE, lake)):
        with pytest.raises(NewerLakeError, match="form 99"), lease(NO_JVM, ip_holds.TABLE, place):
            pass


def test_an_entry_of_an_unknown_form_is_an_error_with_a_name(lake: Lake) -> None:
    path = lake.table(bronze.TABLE)
    create(path, RECEIVED)
    commit(path, [], json.dumps({"strandline": 2, "rows": {"came": 1}}))

    with pytest.raises(DataError, match="cannot be read") as refused:
        entry_at(path, 1)

    assert "newer" in refused.value.hint
