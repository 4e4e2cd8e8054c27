"""A lake on an object store and a cluster of two workers: the rows are those of one machine, and no key goes to the cluster."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from strandline_infra import programs
from tests.cli import inside, typed
from tests.faults.lives import PATIENCE
from tests.support.planted import holding, lines
from tests.support.proofs import Times
from tests.support.s3_server import S3Server
from tests.support.standalone import WORKERS, Cluster

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(900), pytest.mark.whole]

CHAIN = ("bronze.dhcp_events", "silver.dhcp_events", "gold.ip_holds")
"""With state that Python keeps: workers of Spark's, in executors and in the driver, import the project."""

SENT = ("--make-topics", "--seed", 20, "--until", "2026-11-01")


@pytest.fixture
def env(s3: S3Server, cluster: Cluster, bucket: Place, tmp_path: Path) -> dict[str, str]:
    """Return what a team sets; Spark writes its events, as it would for its history server."""
    conf, events = tmp_path / "conf", tmp_path / "events"
    conf.mkdir()
    events.mkdir()
    (conf / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir {events.as_uri()}\n"
        "spark.executor.memory 640m\n"
    )
    return {
        **s3.environment,
        "STRANDLINE_MASTER": cluster.master,
        "STRANDLINE_LAKE": str(bucket),
        "STRANDLINE_MEMORY": "512m",
        "SPARK_CONF_DIR": str(conf),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


@pytest.mark.prove
def test_a_run_on_a_cluster_gives_the_rows_of_one_on_this_machine(  # noqa: PLR0913, PLR0917  # the world of a cluster
    s3: S3Server, cluster: Cluster, bucket: Place, env: dict[str, str], tmp_path: Path, times: Times
) -> None:
    """Both workers took part, and neither key is in a log, an event, an object, or a list of processes."""
    disk = Lake(Place.of(tmp_path / "disk"))
    env["STRANDLINE_KAFKA"] = broker.up(disk).address
    before = _homes(cluster)
    try:
        inside.succeeded("produce", *SENT, "--events", times(300, 1_500), env=env)
        seen = _run(cluster, "run", *CHAIN, env=env, log=tmp_path / "run.log")
        here = {"STRANDLINE_KAFKA": env["STRANDLINE_KAFKA"]}
        inside.succeeded("run", *CHAIN, "--lake", disk.root, env=here)
        inside.succeeded("ledger", env=env)
        equal = inside.succeeded("compare", disk.root, bucket, "--json", env=env).json
    finally:
        broker.down(disk)

    assert isinstance(equal, list)
    assert {each["table"] for each in equal} >= {*CHAIN[1:]}
    assert all(each["left_rows"] for each in equal if each["table"] in CHAIN[1:])
    assert {home.parent.name for home in _homes(cluster) - before} == {"0", "1"}
    assert "-Xmx640M" in seen
    places = (cluster.folder, tmp_path / "events", tmp_path / "state", tmp_path / "run.log")
    assert "spark.executor.memory" in next((tmp_path / "events").rglob("events_*")).read_text()
    assert not any(s3.secret in word or s3.key in word for word in seen)
    assert holding((s3.secret, s3.key), *places, bucket) == []


@pytest.mark.prove(alone="spark-submit is a start of Spark more")
def test_spark_submit_does_the_same(
    cluster: Cluster, bucket: Place, env: dict[str, str], tmp_path: Path
) -> None:
    """The master is the one that was typed, and executors get their Python packages in an archive."""
    packages, properties = tmp_path / "packages.tar.gz", tmp_path / "strandline.conf"
    programs.pack(packages)
    disk = Lake(Place.of(tmp_path / "disk"))
    env["STRANDLINE_KAFKA"] = broker.up(disk).address
    env["STRANDLINE_EXECUTOR_PYTHON"] = str(packages)
    before = _homes(cluster)
    try:
        inside.succeeded("produce", *SENT, "--events", 1_500, env=env)
        words = ("-m", "strandline.cli.spark_properties")
        options = typed.strandline(*words, env=env, program=sys.executable).succeeded()
        properties.write_text(options.out)
        del env["STRANDLINE_MASTER"]
        submit = Path(sys.executable).with_name("spark-submit")
        program = Path(programs.__file__).parent / "spark" / "submit.py"
        given = ("--properties-file", properties, "--master", cluster.master, program)
        path = f"{Path(sys.executable).parent}:{typed.ENVIRONMENT['PATH']}"
        typed.strandline(
            *(*given, "run", *CHAIN), env={**env, "PATH": path}, program=str(submit)
        ).succeeded()
        here = {"STRANDLINE_KAFKA": env["STRANDLINE_KAFKA"]}
        inside.succeeded("run", *CHAIN, "--lake", disk.root, env=here)
        inside.succeeded("ledger", env=env)
        inside.succeeded("compare", disk.root, bucket, env=env)
    finally:
        broker.down(disk)

    assert len(_homes(cluster) - before) == WORKERS


def _run(cluster: Cluster, *words: object, env: Mapping[str, str], log: Path) -> set[str]:
    """Run a command to its end; return the words of the command lines of all processes that it and the cluster had."""
    process = typed.start(*words, log=log, env=env)
    seen = set[str]()
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        seen |= lines([*family(process.pid), *cluster.family()])
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.5)
    assert process.returncode == 0, log.read_text()[-3000:]
    return seen


def _homes(cluster: Cluster) -> set[Path]:
    """Return the folders that workers have made for executors' applications."""
    return {*cluster.folder.glob("work/*/app-*")}
