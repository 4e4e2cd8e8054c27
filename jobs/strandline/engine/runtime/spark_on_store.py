"""What Spark needs beside its own settings where the lake is on an object store."""

from pathlib import Path

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.settings import store_options
from strandline_infra import object_store
from strandline_infra.logged import SetupError

CREDENTIALS = (
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)


def jars() -> list[Path]:
    """Return the jars of an object store, which are fetched when the first lake on one is opened.

    Raises:
        DefinitionError: They cannot be had.
    """
    try:
        return object_store.JARS.class_path()
    except SetupError as error:
        raise DefinitionError(error.message, hint=error.hint) from error


def options() -> dict[str, str]:
    """Return how Hadoop reaches the object store; the keys stay in the environment, where its own client finds them."""
    where = store_options()
    return {
        # None of Delta's own is safe for two drivers (infra/strandline_infra/spark/ConditionalLogStore.scala).
        "spark.delta.logStore.s3a.impl": object_store.LOG_STORE,
        # A rename is a copy and a removal there (infra/strandline_infra/spark/ConditionalCheckpointFiles.scala).
        "spark.sql.streaming.checkpointFileManagerClass": object_store.CHECKPOINT_FILES,
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
        **({"spark.hadoop.fs.s3a.endpoint": where.endpoint} if where.endpoint else {}),
    }
