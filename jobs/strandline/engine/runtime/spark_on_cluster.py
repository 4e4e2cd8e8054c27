"""What Spark needs beside its own settings where its executors run in a cluster (STRANDLINE_MASTER).

The driver stays in our process (client mode). Executors may be on other machines: they get the project's code, the jars
and the time zone from the driver, and Python packages where they have none; they read and write the lake by themselves.

The keys of an object store do not go with them. Spark copies a driver's AWS_* variables into Hadoop's configuration, and
that goes with the tasks; here they are taken out again, so executors have keys of their own: in the environment
of the workers, by a secret of Kubernetes, or by the role of the machine.
"""

import hashlib
import importlib.util
import ipaddress
import os
import shlex
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zipfile import PyZipFile

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.runtime.code_files import roots
from strandline.engine.runtime.jvm import executors, hadoop
from strandline.engine.runtime.settings import (
    ABFSS,
    GS,
    S3A,
    Settings,
    StoreOptions,
    azure_identity,
    has_token,
    store_options,
)
from strandline.sql_import import LAYERS, SUFFIX, as_module
from strandline_infra import java
from strandline_infra.installation import SetupError

# The project's code as one file, which executors on other machines put before their own modules.
#
# So what a task runs is what the driver has, also where an image of the executors is older. It holds compiled modules,
# as Python's own ``PyZipFile`` makes them: Python keeps no compiled form of what it reads from an archive, and each worker would
# compile it anew. Executors have the driver's Python, of the same minor version, or Spark refuses them.


PACKAGES = ("strandline", "strandline_quality", "strandline_infra")


def archive(folder: Path) -> Path:
    """Return the archive of the code as it is, made in a folder unless it is there.

    Its name changes with the code and its content never does, because executors that come later fetch it again.
    """
    file = folder / f"strandline-{_digest()}.zip"
    if not file.exists():
        draft = file.with_suffix(f".{os.getpid()}.partial")
        with PyZipFile(str(draft), "w") as made:
            for package in _folders():
                made.writepy(str(package))
                for table in _in_sql(package):
                    name = table.relative_to(package.parent).with_suffix(".py")
                    made.writestr(str(name), as_module(table))
        draft.replace(file)
    return file


def _folders() -> list[Path]:
    """Return the folders of the packages: the engine's, and the one with the tables."""
    own = [root / name for name, root in roots().items() if name not in PACKAGES]
    engine = [folder for name in PACKAGES for folder in _folder(name)]
    return [*engine, *own]


def _folder(package: str) -> list[Path]:
    """Return the folder of a package of the engine."""
    found = importlib.util.find_spec(package)
    return [Path(found.origin).parent] if found and found.origin else []


def _in_sql(package: Path) -> list[Path]:
    """Return the tables in SQL of a package: a table in Python may import one, and executors import that."""
    files = (file for layer in LAYERS for file in package.rglob(f"{layer}/*{SUFFIX}"))
    return sorted(file for file in files if file.stem.isidentifier())


def _digest() -> str:
    digest = hashlib.sha256()
    for package in _folders():
        for module in [*sorted(package.rglob("*.py")), *_in_sql(package)]:
            digest.update(
                str(module.relative_to(package.parent)).encode() + b"\0" + module.read_bytes()
            )
    return digest.hexdigest()[:16]


KUBERNETES = "k8s://"
TLS_PORT = 443
UNPACKED = "packages"
"""The folder of the archive of packages, in an executor's own."""
OF_ARCHIVE = ("PATH", "PYTHONPATH")
"""Variables by which executors find what was unpacked."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
ANSWERS = 5.0
"""Seconds in which a master must accept a connection; Spark itself would try for a minute before it ends without a reason."""
COMES = 180.0
"""Seconds in which the first executor must register; on Kubernetes an image may have to be fetched first."""
LOOKS = 0.05
CARRIED_KEYS = ("access.key", "secret.key", "session.token")


def options(
    found: Settings, jars: Sequence[str], java_options: Sequence[str] = ()
) -> dict[str, str]:
    """Return the options of a session whose executors run in a cluster.

    Raises:
        DefinitionError: Executors there could not see the lake, or the archive of packages is missing.
        TransientError: The master does not answer.
    """
    master = str(found.master)
    here = _address_towards(master)
    if found.store is None and not ipaddress.ip_address(here).is_loopback:
        raise DefinitionError(
            f"the lake {found.lake} is a folder of this machine, which the executors of {master} do not see",
            hint="choose a lake on an object store: STRANDLINE_LAKE=s3a://bucket/lake.",
            lake=found.lake,
            master=master,
        )
    return {
        "spark.master": master,
        "spark.cores.max": str(found.cores),
        # Where executors reach the driver: at the address that this machine has towards the master.
        "spark.driver.host": here,
        "spark.driver.bindAddress": here,
        "spark.jars": ",".join(jars),
        "spark.executorEnv.TZ": "UTC",
        "spark.executor.extraJavaOptions": shlex.join(["-Duser.timezone=UTC", *java_options]),
        **_file_system(found),
        **_packages(found),
    }


def environment(found: Settings, own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which the driver and the executors start the same Python.

    Spark starts one in the driver too, for transformWithState, and by the same name. An archive is unpacked in a folder that
    only executors have, so there the name alone is given, and each finds its own on its PATH.
    """
    if found.executor_archive is None:
        return {"PYSPARK_PYTHON": found.executor_python or sys.executable}
    programs = Path(sys.executable).parent
    return {"PYSPARK_PYTHON": "python3", "PATH": f"{programs}:{own.get('PATH', SYSTEM_PATH)}"}


def equip(spark: SparkSession, found: Settings, folder: Path) -> None:
    """Wait for the first executor, and give all of them the project's code.

    Raises:
        TransientError: None came.
    """
    keep_keys(hadoop(spark))
    _await_executor(spark, found)
    # PySpark gives what executors have to every Python, to the driver's too; a Python that finds another of its name on
    # the PATH takes that one's library.
    for name in OF_ARCHIVE:
        spark.sparkContext.environment.pop(name, None)
    before = list(sys.path)
    spark.sparkContext.addPyFile(str(archive(folder)))
    # PySpark puts the archive before our own modules, and those read files that lie beside them.
    sys.path[:] = before


def keep_keys(configuration: Any) -> None:  # noqa: ANN401  # py4j's objects have no types
    """Take the keys that Spark has copied from the environment out of the configuration that goes with tasks."""
    for key in CARRIED_KEYS:
        configuration.unset(f"fs.s3a.{key}")


def _await_executor(spark: SparkSession, found: Settings) -> None:
    deadline = time.monotonic() + COMES
    try:
        while executors(spark) == 0 and time.monotonic() < deadline:
            time.sleep(LOOKS)
        has_come = executors(spark) > 0
    except Py4JJavaError:  # the cluster has ended the application
        has_come = False
    if not has_come:
        spark.stop()
        raise TransientError(
            f"no executor of {found.master} came in {COMES:.0f} seconds",
            hint=f"each program of Strandline asks for STRANDLINE_CORES={found.cores} cores of its own: the cluster's "
            "page shows what holds them, and why an executor ended.",
            master=found.master,
        )


def _file_system(found: Settings) -> dict[str, str]:
    """Return the file system of local files, which executors may need before they have fetched the jars.

    On a store no file of the lake is local, and Hadoop's own is always there. In a folder it is that of a single machine:
    executors upload the state of a fold by Hadoop's ``copyFromLocalFile``, which takes no other kind than Hadoop's own and
    what extends it [run: every first batch of ``transformWithState`` failed with the one below it].
    """
    if found.store is not None:
        return {"spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem"}
    return {}


def _packages(found: Settings) -> dict[str, str]:
    archive = found.executor_archive
    if archive is None:
        return {}
    if not archive.is_file():
        raise DefinitionError(
            f"there is no archive {archive} of Python packages",
            hint="`python -m strandline_infra.programs packages FILE.tar.gz` makes one; STRANDLINE_EXECUTOR_PYTHON names it.",
            archive=str(archive),
        )
    return {
        "spark.archives": f"{archive}#{UNPACKED}",
        # Packages alone, or a whole environment with an interpreter, such as conda-pack's.
        "spark.executorEnv.PYTHONPATH": UNPACKED,
        "spark.executorEnv.PATH": f"{UNPACKED}/bin:{SYSTEM_PATH}",
    }


def _address_towards(master: str) -> str:
    """Return the address that this machine has where it reaches the master.

    Raises:
        TransientError: The master does not answer.
    """
    errors = []
    for host, port in _addresses(master):
        try:
            with socket.create_connection((host, port), ANSWERS) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            errors.append(f"{host}:{port}: {error.strerror or error}")
    raise TransientError(
        f"nothing answers at {master} ({'; '.join(errors)})",
        hint="start the cluster's master, or correct STRANDLINE_MASTER; without it Spark works on this machine.",
        master=master,
    )


def _addresses(master: str) -> list[tuple[str, int]]:
    if master.startswith(KUBERNETES):
        named = master.removeprefix(KUBERNETES)
        server = urlsplit(named if "://" in named else f"//{named}")
        return [(str(server.hostname), server.port or TLS_PORT)]
    pairs = (each.rpartition(":") for each in master.partition("://")[2].split(","))
    return [(host, int(port)) for host, _, port in pairs]


# What Spark needs beside its own settings where the lake is on an object store.


CREDENTIALS = (
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)


def store_jars(scheme: str) -> list[Path]:
    """Return the jars of an object store, which are fetched when the first lake on one is opened.

    Raises:
        DefinitionError: They cannot be had.
    """
    try:
        return java.STORES[scheme].class_path()
    except SetupError as error:
        raise DefinitionError(error.message, hint=error.hint) from error


def store_properties(scheme: str) -> dict[str, str]:
    """Return how Hadoop reaches an object store; the keys stay in the environment, where its own client finds them."""
    of_kind = {S3A: _s3, GS: _gcs, ABFSS: _azure}
    return {
        # None of Delta's own is safe for two drivers (infra/strandline_infra/spark/ConditionalLogStore.scala).
        f"spark.delta.logStore.{scheme}.impl": java.LOG_STORE,
        # A rename is a copy and a removal there (infra/strandline_infra/spark/ConditionalCheckpointFiles.scala).
        "spark.sql.streaming.checkpointFileManagerClass": java.CHECKPOINT_FILES,
        **of_kind[scheme](store_options(scheme)),
    }


def _gcs(where: StoreOptions) -> dict[str, str]:
    """Return the same for Google's: its application default credentials are found as all of its tools find them."""
    provider = {
        "spark.hadoop.fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER",
        "spark.hadoop.fs.gs.auth.access.token.provider": java.FROM_ENVIRONMENT,
    }
    return {
        # Hadoop names a class of its own for this scheme, which is in none of the jars.
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        **(provider if has_token() else {"spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT"}),
        # Over JSON and not gRPC: the condition of a write is the one that was raced (tests/faults/test_two_drivers.py).
        "spark.hadoop.fs.gs.client.type": "HTTP_API_CLIENT",
        # Hadoop itself has defaults of these names, as "64m", which this connector cannot read.
        "spark.hadoop.fs.gs.block.size": str(64 << 20),
        "spark.hadoop.fs.gs.inputstream.inplace.seek.limit": str(8 << 20),
        "spark.hadoop.fs.gs.inputstream.min.range.request.size": str(2 << 20),
        "spark.hadoop.fs.gs.outputstream.buffer.size": str(8 << 20),
        "spark.hadoop.fs.gs.rewrite.max.chunk.size": str(512 << 20),
        # About half a minute, as for the other stores; by default it is asked for two.
        "spark.hadoop.fs.gs.http.max.retry": "6",
        # Each open file takes a buffer of this size in the heap, which is 24 MB by default.
        "spark.hadoop.fs.gs.outputstream.upload.chunk.size": str(8 << 20),
        "spark.hadoop.fs.gs.outputstream.pipe.buffer.size": str(1 << 20),
        # Parquet's reads of several ranges at once call a method of Hadoop that has changed since the connector was compiled (3.1.9
        # with Hadoop 3.5.0); Spark read no file of rows [NoSuchMethodError: VectoredReadUtils.validateRangeRequest].
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        # No marks of folders: what a folder is, the names of its objects say.
        "spark.hadoop.fs.gs.implicit.dir.repair.enable": "false",
        # A file that is created asks first whether a folder has its name, and each folder above whether it is a file.
        "spark.hadoop.fs.gs.create.items.conflict.check.enable": "false",
        **({"spark.hadoop.fs.gs.storage.root.url": where.endpoint} if where.endpoint else {}),
    }


def _azure(where: StoreOptions) -> dict[str, str]:
    """Return the same for Azure's: by the account's key, or else by the identity of the pod or of the machine."""
    return {
        "spark.hadoop.fs.AbstractFileSystem.abfss.impl": "org.apache.hadoop.fs.azurebfs.Abfss",
        # Java's own TLS: the OpenSSL of WildFly is not among the jars.
        "spark.hadoop.fs.azure.ssl.channel.mode": "Default_JSSE",
        # Java's own client, which was tested: the other one does not start without TLS.
        "spark.hadoop.fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        # About half a minute, as for the other stores; by default it is asked thirty times, over many minutes.
        "spark.hadoop.fs.azure.io.retry.max.retries": "8",
        "spark.hadoop.fs.azure.io.retry.max.backoff.interval": "5000",
        # Its figures about footers are one object for all readers of a file, without a lock: of those that read one at once some
        # ended [3.5.0, one of a hundred races: NullPointerException in AbfsReadFooterMetrics]. It would send them to the account, too.
        "spark.hadoop.fs.azure.metrics.collection.enabled": "false",
        **_azure_keys(azure_identity()),
        **(_azurite(where.endpoint) if where.endpoint and where.is_plain else {}),
    }


def _azure_keys(identity: Mapping[str, str]) -> dict[str, str]:
    if not identity:
        return {"spark.hadoop.fs.azure.account.keyprovider": java.ACCOUNT_KEY}
    oauth = "spark.hadoop.fs.azure.account.oauth"
    is_federated = bool(identity["file"])
    provider = "WorkloadIdentityTokenProvider" if is_federated else "MsiTokenProvider"
    named = {
        f"{oauth}2.client.id": identity["client"],
        f"{oauth}2.msi.tenant": identity["tenant"],
        f"{oauth}2.token.file": identity["file"],
    }
    return {
        "spark.hadoop.fs.azure.account.auth.type": "OAuth",
        f"{oauth}.provider.type": f"org.apache.hadoop.fs.azurebfs.oauth2.{provider}",
        **{name: value for name, value in named.items() if value},
    }


def _azurite(endpoint: str) -> dict[str, str]:
    """Return what a server on loopback needs: it has Azure's blob interface without TLS, and no folders."""
    return {
        "spark.hadoop.fs.abfss.impl": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
        "spark.hadoop.fs.azure.always.use.https": "false",
        "spark.hadoop.fs.azure.abfs.endpoint": urlsplit(endpoint).netloc,
        "spark.hadoop.fs.azure.account.hns.enabled": "false",
        "spark.hadoop.fs.azure.fns.account.service.type": "BLOB",
        "spark.hadoop.fs.azure.ingress.service.type": "BLOB",
    }


def _s3(where: StoreOptions) -> dict[str, str]:
    """Return the same for S3."""
    return {
        "spark.hadoop.fs.AbstractFileSystem.s3a.impl": "org.apache.hadoop.fs.s3a.S3A",
        "spark.hadoop.fs.s3a.aws.credentials.provider": CREDENTIALS,
        "spark.hadoop.fs.s3a.endpoint.region": where.region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        # Small files: no part of one is written to a disk first, and no bucket is asked whether it exists.
        "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
        "spark.hadoop.fs.s3a.bucket.probe": "0",
        # A file that is created asks first whether it is there, and whether it is a folder: two requests for each file of rows, whose
        # name no other has. What must be new is decided by the server all the same (infra/strandline_infra/spark/ConditionalWrite.scala).
        "spark.hadoop.fs.s3a.performance.flags": "create",
        # Each open file takes a buffer of this size, and no less. With the default of 64 MB eight commits at once ended with
        # "Cannot reserve direct buffer memory" in a heap of 512 MB (tests/faults/test_two_drivers.py).
        "spark.hadoop.fs.s3a.multipart.size": "8M",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(not where.is_plain).lower(),
        # What is sent costs money: it is counted by table (infra/docs/cost.md).
        "spark.hadoop.fs.s3a.audit.execution.interceptors": java.REQUESTS,
        **({"spark.hadoop.fs.s3a.endpoint": where.endpoint} if where.endpoint else {}),
    }
