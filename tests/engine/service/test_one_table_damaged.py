"""A stream whose one table is damaged serves the others, and goes on with it once it is mended."""

import threading
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DamagedError, DataError, DefinitionError
from strandline.core.stateful import MicroBatch
from strandline.engine.flow.preflight import Answer, judge, refuse
from strandline.engine.flow.readers import readers
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.open_table import live_files, opened
from strandline.engine.lake.place import Place
from strandline.engine.repair.rebuild import promote, rebuild, refuse_without_promotion
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Policy, maintain, refuse_idle
from strandline.engine.service.set_aside import mend
from strandline.engine.service.stream_host import Host
from tests.cli.inside import strandline
from tests.engine.service.test_failing import Served
from tests.support.events import readings, received
from tests.support.modes import answers_of, derive, has_caught_up, proven, twin
from tests.support.morning import LATER, TABLES
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

AT_ONCE = Policy(keep=timedelta(0), untouched=timedelta(0))


@pytest.mark.whole
def test_the_other_tables_are_served_and_a_rebuild_brings_it_back(
    spark: SparkSession, morning: Lake
) -> None:
    """The stream of all tables ended with JSONDecodeError, at its start and at each restart."""
    site = Site(spark=spark, clock=lambda: NOON)
    other = twin(morning, "undisturbed")
    path = morning.table(gold.TABLE)
    torn = commit_file(path, latest_version(path)).local
    torn.write_bytes(torn.read_bytes()[:100])
    received(morning, readings(LATER))

    verdicts = [judge(spark, each, morning) for each in TABLES]
    refuse(*verdicts)
    stop = threading.Event()
    stream = Served(Host(TABLES, MicroBatch(every=0.05), morning, site, stop), stop)
    stream.until(lambda: has_caught_up(morning, silver.TABLE))
    stream.until(lambda: stream.host.pulses[gold.TABLE.id].failing is not None)
    failing = stream.host.pulses[gold.TABLE.id].failing
    stop.set()
    stream.ended()
    (found,) = mend(gold.TABLE, morning, clock.now())
    rebuild(gold.TABLE, morning, site)
    promote(gold.TABLE, morning, site)
    derive(spark, morning, *TABLES)

    assert [each.answer for each in verdicts] == [Answer.SAFE, Answer.DAMAGED]
    assert failing is not None
    assert failing.says == f"{gold.TABLE.id} is damaged: its commit {torn} is torn"
    assert failing.kind == DataError.kind
    assert found.taken_by == "the checkpoint of its stream says that it is done"
    assert proven(morning, TABLES)
    received(other, readings(LATER))
    derive(spark, other, *TABLES)
    assert answers_of(morning).closed == answers_of(other).closed


@pytest.mark.whole
def test_a_checkpoint_that_was_put_away_damaged_is_a_reader_of_nothing(
    spark: SparkSession, morning: Lake
) -> None:
    """Maintenance read it, and left every table for ever, with exit code 0."""
    site = Site(spark=spark, clock=lambda: NOON)
    newest = max(
        (morning.checkpoint(gold.TABLE) / "commits").local.glob("[0-9]*"), key=lambda f: int(f.name)
    )
    (morning.checkpoint(gold.TABLE) / "offsets" / newest.name).put("v1\ntorn")
    rebuild(gold.TABLE, morning, site)
    promote(gold.TABLE, morning, site)

    with pytest.raises(DefinitionError, match="has no promotion to undo"):
        refuse_without_promotion(gold.TABLE, morning)
    done = [*maintain(morning, clock.now(), AT_ONCE)]
    refuse_idle(done)
    assert [each.left for each in done] == [""] * len(done)
    assert gold.TABLE.id in {each.table for each in readers(morning)}


def test_a_table_without_a_file_is_rebuilt_and_promoted(spark: SparkSession, morning: Lake) -> None:
    """The shadow was right, and the comparison with what is broken ended the rebuild with 70."""
    site = Site(spark=spark, clock=lambda: NOON)
    other = twin(morning, "undisturbed")
    first = Place.of(live_files(opened(morning.table(gold.TABLE)))[0])
    first.remove()

    books = strandline("ledger", gold.TABLE.id, "--lake", morning.root)
    built = strandline("rebuild", gold.TABLE.id, "--lake", morning.root)
    promote(gold.TABLE, morning, site)

    assert books.code == 4
    assert f"its file {first.name} is gone" in books.err
    assert built.code == 0, built.err
    assert "the live table cannot be read (1 of its files are gone or cut)" in built.err
    assert proven(morning, TABLES)
    derive(spark, other, *TABLES)
    assert answers_of(morning).closed == answers_of(other).closed


def test_a_table_that_reads_a_file_that_is_gone_names_the_table_that_lacks_it(
    spark: SparkSession, lake: Lake
) -> None:
    """It failed as unforeseen, with a trace of Spark's, and was named only after five attempts."""
    received(lake, readings(LATER))
    path = lake.table(silver.TABLE.upstream[0])
    (file, *_) = live_files(opened(path))
    Place.of(file).remove()

    with pytest.raises(DamagedError) as failed:
        derive(spark, lake, silver.TABLE)

    name = file.rpartition("/")[2]
    said = f"{silver.TABLE.upstream[0].id} lacks its file {name}, which is gone or was cut, and {silver.TABLE.id} reads it"
    assert failed.value.message == said
    assert "`strandline restore` a snapshot" in failed.value.hint
