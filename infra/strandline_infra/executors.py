"""Executors of a cluster: the Python packages that they need, in an archive, and their program in a container of Kubernetes.

``python -m strandline_infra.executors FILE.tar.gz`` writes the archive; without a file it becomes the executor. The archive is made of the packages of this environment, so the executors have the driver's versions and nothing is fetched. They need
PySpark's way of exchanging rows and state, and no more: the project's own code goes by itself
(jobs/strandline/engine/runtime/spark_on_cluster.py), and PySpark is part of their Spark. The interpreter is theirs, of the same minor
version and for the same kind of machine.
"""

import os
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path

from strandline_infra import java

PACKAGES = (
    *("numpy", "pandas", "protobuf", "pyarrow"),
    *("python-dateutil", "pytz", "six", "tzdata"),  # of pandas
)
REGISTERED = (
    *("fastavro", "jsonschema-rs", "orjson", "googleapis-common-protos"),
    *("obstore", "fsspec", "pydantic-settings"),  # a schema is read from the lake
    *("pydantic", "pydantic-core", "annotated-types", "python-dotenv"),  # of the latter
    *("typing-extensions", "typing-inspection"),
)
"""What decodes payloads of a schema registry (jobs/strandline/core/parse_registered.py); those that are installed."""

LEFT_OUT = {"__pycache__", "tests", "include", ".."}
"""Folders of no use there; the last holds programs."""


def write(file: Path) -> None:
    """Write the archive."""
    with tarfile.open(file, "w:gz", compresslevel=3) as archive:
        for each in _files():
            if LEFT_OUT.isdisjoint(each.parts):
                archive.add(each.locate(), arcname=str(each), recursive=False)


def _files() -> Iterator[PackagePath]:
    for name in PACKAGES:
        yield from distribution(name).files or ()
    for name in REGISTERED:
        with suppress(PackageNotFoundError):
            yield from distribution(name).files or ()


# Spark's executor in a container of Kubernetes: the image's program ``executor``, which runs this module without a word.
#
# A driver with STRANDLINE_MASTER=k8s://… starts pods whose only word is ``executor``, and says by variables what each is to be.
# Spark's own image has a script for that word; pip's pyspark, which ours is made of, lacks it, and the pod would end at once.

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
JARS = "lib/python3.*/site-packages/pyspark/jars"
OPTION = "SPARK_JAVA_OPT_"
"""Begins the names of the variables with Java's options, which end in a number."""
WORDS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(given: Mapping[str, str], home: Path) -> list[str]:
    """Return what runs, by the variables of the driver and the home of Java."""
    numbered = (name for name in given if name.startswith(OPTION))
    options = [given[name] for name in sorted(numbered, key=lambda name: int(name[len(OPTION) :]))]
    heap = given["SPARK_EXECUTOR_MEMORY"]
    jars = [f"{each}/*" for each in Path(sys.prefix).glob(JARS)]
    first = [given[name] for name in ("SPARK_CONF_DIR", "SPARK_EXTRA_CLASSPATH") if name in given]
    path = ":".join([*first, *jars])
    words = [word for flag, name in WORDS.items() for word in (flag, given[name])]
    return [
        str(home / "bin" / "java"),
        *options,
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-cp",
        path,
        BACKEND,
        *words,
    ]


def main() -> None:
    """Become the executor, so that a signal to it reaches Java."""
    home = java.java_home()
    if home is None:
        sys.exit(
            "no Java 17 or 21 was found.\n\nhint: build the image with infra/image/Dockerfile."
        )
    words = command(os.environ, home)
    os.execv(words[0], words)  # noqa: S606  # without a shell, on purpose


if __name__ == "__main__" and sys.argv[1:]:
    write(Path(sys.argv[1]))
elif __name__ == "__main__":
    main()
