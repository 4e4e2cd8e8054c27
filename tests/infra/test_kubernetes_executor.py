"""The program with which an executor's pod begins: a driver that is no Kubernetes gives it work, by the same variables."""

import json
import os
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from strandline.engine.runtime.processes import bind
from strandline_infra import java
from strandline_infra.programs import BACKEND, HOST, OPTION, executor_command

GIVEN = {
    "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@{HOST}:1",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": HOST,
    "SPARK_EXECUTOR_POD_NAME": "pod",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}
MASTER = "org.apache.spark.deploy.master.Master"
DRIVER = """
import json, os, sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master(sys.argv[1])
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.driver.memory", "512m").getOrCreate()
)
context = spark.sparkContext
names = ("spark.driver.port", "spark.app.id", "spark.executor.extraJavaOptions")
print(json.dumps([context.getConf().get(name) for name in names]), flush=True)
found = context.parallelize(range(100), 4).map(lambda one: (os.getenv("SPARK_EXECUTOR_POD_NAME"), one))
print(json.dumps(found.reduceByKey(lambda a, b: a + b).collect()), flush=True)
spark.stop()
"""


def test_its_words_are_those_of_the_driver_and_options_are_in_their_order() -> None:
    """The tenth option comes after the second."""
    many = {f"SPARK_JAVA_OPT_{number}": f"-D{number}" for number in range(11)}

    words = executor_command({**GIVEN, **many}, Path("/java"))

    assert words[:12] == ["/java/bin/java", *(f"-D{number}" for number in range(11))]
    assert words[12:15] == ["-Xms512m", "-Xmx512m", "-cp"]
    assert words[16:19] == [BACKEND, "--driver-url", GIVEN["SPARK_DRIVER_URL"]]


@pytest.mark.slow
@pytest.mark.prove(alone="half a minute")
def test_an_executor_that_is_started_like_a_pod_does_the_work_of_a_driver(tmp_path: Path) -> None:
    home = java.java_home()
    assert home is not None
    port = bind(0)
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    words = ["--host", HOST, "--port", str(port), "--webui-port", "0"]
    env = {**os.environ, "JAVA_HOME": str(home), "SPARK_LOCAL_IP": HOST}
    started = []
    try:
        with (tmp_path / "log").open("wb") as log, ExitStack() as open_until_the_end:
            master = [home / "bin" / "java", "-Xmx256m", "-cp", jars, MASTER, *words]
            started.append(subprocess.Popen(master, stdout=log, stderr=log, env=env))
            driver = subprocess.Popen(
                [sys.executable, "-c", DRIVER, f"spark://{HOST}:{port}"],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**env, "PYSPARK_PYTHON": sys.executable},
            )
            started.append(driver)
            assert driver.stdout is not None
            open_until_the_end.callback(driver.stdout.close)
            # Options of Java are numbered variables, as Spark makes them; without those that open its modules no task runs.
            address, application, options = json.loads(driver.stdout.readline())
            opened = {f"{OPTION}{n}": each for n, each in enumerate(shlex.split(options))}
            url = f"spark://CoarseGrainedScheduler@{HOST}:{address}"
            pod = {**GIVEN, **opened, "SPARK_DRIVER_URL": url, "SPARK_APPLICATION_ID": application}
            program = [sys.executable, "-m", "strandline_infra.programs", "executor"]
            started.append(
                subprocess.Popen(program, stdout=log, stderr=log, env={**env, **pod}, cwd=tmp_path)
            )
            answer = driver.stdout.readline()
            assert answer, (tmp_path / "log").read_text()[-3000:]
            assert json.loads(answer) == [["pod", sum(range(100))]]
            assert driver.wait(60) == 0
            assert started[-1].wait(60) == 0
    finally:
        for each in started:
            each.kill()
            each.wait()
