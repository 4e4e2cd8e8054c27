"""Spark Connect's own server on loopback: the Spark of pip with Delta's jars and nothing of ours; and programs that are its clients.

A client is a program of its own: PySpark writes into its environment that it is one, and a process is one or has a JVM.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyspark

from strandline.engine.runtime.processes import bind, family
from strandline_infra import java
from strandline_infra.programs import HOST
from tests.cli.typed import ENVIRONMENT

HOME = Path(pyspark.__file__).parent
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
READY = "Spark Connect server started"
PATIENCE = 120.0
CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.connect.grpc.binding.address": HOST,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
"""What a platform has beside Delta: sizes and addresses."""


def plain_jars() -> list[Path]:
    """Return Delta's jars."""
    return [jar for jar in java.spark_jars() if jar.name.startswith("delta-")]


@contextmanager
def serving(folder: Path, **more: str) -> Iterator[str]:
    """Run a server for the length of the block; yield its address.

    Args:
        folder: For its files.
        more: Options of Spark, with underscores for dots.
    """
    port, log = bind(0), folder / "connect.log"
    options = {
        **CONF,
        "spark.connect.grpc.binding.port": str(port),
        "spark.jars": ",".join(map(str, plain_jars())),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    words = [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]
    home = java.java_home()
    assert home
    with log.open("wb") as written:
        program = subprocess.Popen(
            [HOME / "bin/spark-submit", *words, "--class", SERVER, "spark-internal"],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            env={
                "JAVA_HOME": str(home),
                "SPARK_HOME": str(HOME),
                "PATH": os.environ["PATH"],
                "TZ": "UTC",
                "PYSPARK_PYTHON": sys.executable,
            },
            cwd=folder,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while READY not in log.read_text():
            said = log.read_text()[-3000:]
            assert program.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)
        yield f"sc://{HOST}:{port}"
    finally:
        for each in family(program.pid):
            try:
                each.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        program.wait()


HEAD = """
import json, os, sys
given = json.loads(sys.argv[1])
def answer(value):
    print(json.dumps(value, default=str))
"""


def client(
    code: str, given: object, *, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> Any:  # noqa: ANN401  # what the program answers
    """Run a program, ``given`` its values, to its end; return what its last ``answer(…)`` was given."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HEAD + code, json.dumps(given, default=str)],
        env={**ENVIRONMENT, **(env or {})},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])
