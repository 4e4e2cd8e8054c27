"""What a session on a cluster begins with, and what it refuses before a JVM is started."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from strandline.cli.spark_properties import lines
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.jvm import jvm
from strandline.engine.runtime.settings import Settings, settings
from strandline.engine.runtime.spark_on_cluster import (
    environment,
    keep_keys,
    options,
    store_properties,
)
from strandline_infra.programs import HOST

BUCKET = "s3a://bucket/lake"


@pytest.fixture
def port() -> Iterator[int]:
    """Return a port at which something answers, at every address of this machine."""
    with socket.create_server(("", 0)) as server:
        yield server.getsockname()[1]


def on(port: int, *, host: str = HOST, **given: object) -> Settings:
    return settings(master=f"spark://{host}:{port}", **{"lake": BUCKET, **given})


def test_executors_get_jars_zone_and_the_address_of_the_driver(port: int) -> None:
    """As many cores are asked for as are set; the first master that answers is enough."""
    closed = "127.0.0.1:1"
    found = options(
        settings(master=f"spark://{closed},{HOST}:{port}", lake=BUCKET, cores=6),
        ["/a.jar", "/b"],
        ["-Dx=1"],
    )

    assert found["spark.jars"] == "/a.jar,/b"
    assert found["spark.cores.max"] == "6"
    assert found["spark.executorEnv.TZ"] == "UTC"
    assert found["spark.executor.extraJavaOptions"] == "-Duser.timezone=UTC -Dx=1"
    assert {found["spark.driver.host"], found["spark.driver.bindAddress"]} == {HOST}


def test_a_master_that_does_not_answer_is_named() -> None:
    """Spark would try for a minute, and end without a reason."""
    with pytest.raises(TransientError, match="nothing answers at spark") as caught:
        options(on(1), [])

    assert "STRANDLINE_MASTER" in caught.value.hint


def test_a_lake_in_a_folder_is_refused_where_executors_may_be_elsewhere(
    port: int, tmp_path: Path
) -> None:
    """A master on loopback has its workers on this machine."""
    options(on(port, lake=tmp_path), [])
    own = [
        each.address
        for found in psutil.net_if_addrs().values()
        for each in found
        if each.family == socket.AF_INET and not each.address.startswith("127.")
    ]
    if not own:
        pytest.skip("this machine has no address but loopback")

    with pytest.raises(DefinitionError, match="do not see") as caught:
        options(on(port, host=own[0], lake=tmp_path), [])

    assert "s3a://" in caught.value.hint
    assert options(on(port, host=own[0]), [])["spark.driver.host"] == own[0]


def test_packages_are_sent_in_an_archive_and_found_by_the_path(port: int, tmp_path: Path) -> None:
    """The driver has no such folder, so both start Python by the same name."""
    archive = tmp_path / "packages.tar.gz"
    found = on(port, executor_python=archive.as_posix())
    with pytest.raises(DefinitionError, match="no archive") as caught:
        options(found, [])
    assert "strandline_infra.programs" in caught.value.hint
    archive.write_bytes(b"")

    chosen = options(found, [])

    assert chosen["spark.archives"] == f"{archive}#packages"
    assert chosen["spark.executorEnv.PYTHONPATH"] == "packages"
    assert chosen["spark.executorEnv.PATH"].startswith("packages/bin:")
    assert environment(found, {"PATH": "/bin"}) == {
        "PYSPARK_PYTHON": "python3",
        "PATH": f"{Path(sys.executable).parent}:/bin",
    }


def test_an_interpreter_of_the_executors_is_used_by_its_path(port: int) -> None:
    """An image may have it elsewhere."""
    found = on(port, executor_python="/opt/strandline/bin/python")

    assert environment(found, {}) == {"PYSPARK_PYTHON": "/opt/strandline/bin/python"}
    assert "spark.archives" not in options(found, [])


def test_the_keys_of_a_store_do_not_go_with_the_tasks(
    spark: SparkSession,
) -> None:
    """Spark itself copies them from the environment into Hadoop's configuration, which it sends to executors."""
    machine = jvm(spark)
    configuration = machine.org.apache.hadoop.conf.Configuration(False)
    names = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token")
    for name in names:
        configuration.set(name, "planted")

    keep_keys(configuration)

    assert [configuration.get(name) for name in names] == [None, None, None]


AZURE = "abfss://box@account.dfs.core.windows.net/lake"


@pytest.mark.whole("gs://bucket/lake")
@pytest.mark.slow
@pytest.mark.parametrize("lake", [BUCKET, "gs://bucket/lake", AZURE])
def test_no_option_has_a_key(
    port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lake: str
) -> None:
    """All of them are on the command line of the JVM, and in the file for spark-submit."""
    for name in (
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        *("GOOGLE_BEARER_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"),
    ):
        monkeypatch.setenv(name, "planted-secret")

    written = lines(spark_session.options(on(port, lake=lake), tmp_path / "spark.log"))

    assert f"spark.master=spark://{HOST}:{port}" in written
    assert any(each.endswith("=strandline.ConditionalLogStore") for each in written)
    assert not any("planted" in each for each in written)


@pytest.mark.parametrize(
    ("file", "provider"),
    [
        ("/var/run/token", "WorkloadIdentityTokenProvider"),
        ("", "MsiTokenProvider"),
    ],
)
def test_without_a_key_azure_is_asked_by_the_identity_of_the_pod_or_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, file: str, provider: str
) -> None:
    """What names an identity is no secret; what is not set is not said, because an empty client is another one."""
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ENDPOINT", "AZURE_CLIENT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", file)

    found = store_properties("abfss")

    oauth = "spark.hadoop.fs.azure.account.oauth"
    assert found[f"{oauth}.provider.type"].endswith(f".{provider}")
    assert found[f"{oauth}2.msi.tenant"] == "tenant"
    assert (found.get(f"{oauth}2.token.file"), found.get(f"{oauth}2.client.id")) == (
        file or None,
        None,
    )
    assert "spark.hadoop.fs.azure.account.keyprovider" not in found


def test_only_spark_submit_brings_a_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other program starts its own."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)

    assert spark_session.submitted_gateway() is None


def test_the_master_that_spark_submit_was_given_counts() -> None:
    """Threads are no cluster, and a cluster of another kind is refused instead of tried."""
    assert spark_session.cluster_of("local[8]") is None
    assert spark_session.cluster_of("spark://one:7077") == "spark://one:7077"
    with pytest.raises(DefinitionError, match="yarn") as caught:
        spark_session.cluster_of("yarn")
    assert "k8s://" in caught.value.hint
