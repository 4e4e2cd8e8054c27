"""A stream of many tables: the limit of open files, and that the JVM reaches Python whatever else is open."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.jvm import deaf, is_deaf
from strandline.engine.runtime.spark_session import (
    AT_ALL,
    EACH,
    allowed,
    carried,
    needed,
    refuse_too_many,
)
from tests.cli.typed import PROGRAM, strandline

SOFT = ("/bin/sh", "-c", 'ulimit -Sn 1024 && exec "$0" "$@"')
"""The usual limit, which a process may raise."""

MANY_OPEN = """
import json, os, resource, sys
from pathlib import Path
from strandline.operate.session import trial_spark
from strandline.engine.runtime.jvm import is_deaf

with trial_spark(Path(sys.argv[1])) as spark:
    server = spark.sparkContext._gateway._callback_server
    # As the sockets of two hundred tables would be, before the first of their queries starts.
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    written = []
    query = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()
        .writeStream.trigger(availableNow=True).option("checkpointLocation", sys.argv[1] + "/c")
        .foreachBatch(lambda rows, _: written.append(rows.count())).start()
    )
    query.awaitTermination(60)
    print(json.dumps({
        "limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "server": server.server_socket.fileno(),
        "highest": max(many),
        "written": written,
        "deaf": is_deaf(spark),
    }))
"""


@pytest.mark.whole
@pytest.mark.slow
def test_a_batch_reaches_python_though_a_thousand_files_are_open(tmp_path: Path) -> None:
    """Its server was started by the first query: above 1,023 its thread died, and no batch was written, without a word."""
    done = subprocess.run(
        [*SOFT, sys.executable, "-c", MANY_OPEN, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["limit"] > 1024
    assert seen["server"] < 1024 <= seen["highest"]
    assert seen["written"] == [7]
    assert not seen["deaf"]


def test_only_a_hard_limit_that_is_too_low_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [1024, 100_000]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(slice(None), new))

    refuse_too_many(205)
    assert spark_session.raise_limit() == limits[0] == spark_session.MOST
    limits[:] = [1024, 1024]
    with pytest.raises(DefinitionError) as refused:
        refuse_too_many(205)
    assert spark_session.raise_limit() == 1024
    assert f"may hold {AT_ALL + EACH * 205:,} files open" in refused.value.message
    assert f"at most {carried(1024):,} of them" in refused.value.hint
    assert needed(carried(1024)) <= 1024 < needed(carried(1024) + 1)
    assert refused.value.exit_code == 2
    limits[:] = [1024, resource.RLIM_INFINITY]
    refuse_too_many(205)


@pytest.mark.whole
@pytest.mark.parametrize("verb", ["stream", "resume"])
def test_a_stream_is_refused_before_anything_starts(tmp_path: Path, verb: str) -> None:
    """With the number that it needs; the example has few tables, so the limit is as low."""
    words = [verb, "--lake", tmp_path / "lake"]
    answer = strandline(
        "-c",
        'ulimit -n 410 && exec "$0" "$@"',
        PROGRAM,
        *words,
        program="/bin/sh",
        env={"STRANDLINE_KAFKA": "127.0.0.1:1"},
    )

    assert answer.code == 2, answer.printed
    assert f"may hold {needed(len(catalog.tables())):,} files open" in answer.err
    assert not (tmp_path / "lake" / "_logs").exists()


@pytest.mark.whole
def test_doctor_says_how_many_tables_a_stream_carries(tmp_path: Path) -> None:
    answer = strandline("doctor", "--lake", tmp_path / "lake", "--json")

    said = {each["name"]: each for each in json.loads(answer.out)}["tables"]
    assert said["ok"]
    assert f"carry {carried(allowed()):,} in one stream" in said["detail"]


def test_a_jvm_that_reaches_python_no_more_is_seen_at_once() -> None:
    """One whose server was never started waits for nothing."""

    def session(**gateway: object) -> SparkSession:
        context = SimpleNamespace(_gateway=SimpleNamespace(**gateway))
        return cast(SparkSession, SimpleNamespace(sparkContext=context))

    def server(alive: Callable[[], bool]) -> object:
        return SimpleNamespace(thread=SimpleNamespace(is_alive=alive))

    assert not is_deaf(session())
    assert not is_deaf(session(_callback_server=server(lambda: True)))
    assert is_deaf(session(_callback_server=server(lambda: False)))
    assert isinstance(deaf(), TransientError)
