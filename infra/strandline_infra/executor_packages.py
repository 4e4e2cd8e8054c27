"""An archive of the Python packages that executors of a cluster need: ``python -m strandline_infra.executor_packages FILE.tar.gz``.

It is made of the packages of this environment, so the executors have the driver's versions and nothing is fetched. They need
PySpark's way of exchanging rows and state, and no more: the project's own code goes by itself
(jobs/strandline/engine/runtime/spark_on_cluster.py), and PySpark is part of their Spark. The interpreter is theirs, of the same minor
version and for the same kind of machine.
"""

import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path

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


if __name__ == "__main__":
    write(Path(sys.argv[1]))
