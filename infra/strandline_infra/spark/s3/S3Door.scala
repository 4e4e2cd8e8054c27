package strandline

import java.io.InputStream
import org.apache.hadoop.fs.{FileStatus, FileSystem, FSDataOutputStream, Path}
import org.apache.hadoop.fs.s3a.{S3AFileSystem, S3AUtils}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import scala.jdk.CollectionConverters._
import software.amazon.awssdk.core.exception.SdkException
import software.amazon.awssdk.services.s3.model.{GetObjectRequest, ListObjectsV2Request}

/** Files on S3: what is new is created by `If-None-Match: *`. */
class S3Door(store: FileSystem) extends StoreDoor {
  private val files = store.asInstanceOf[S3AFileSystem]

  override def create(path: Path, content: Array[Byte]): Unit = put(path, content, mustBeNew = true)

  override def replace(path: Path, content: Array[Byte]): Unit = put(path, content, mustBeNew = false)

  override def replacing(path: Path): CancellableFSDataOutputStream = {
    val stream = opened(path, mustBeNew = false) // which uploads in parts
    new CancellableFSDataOutputStream(stream) {
      override def cancel(): Unit = stream.abort()
    }
  }

  /** By one request; Hadoop's way to open a file asks for its size first. */
  override def read(path: Path): InputStream = {
    val request = GetObjectRequest.builder.bucket(files.getBucket).key(files.pathToKey(files.makeQualified(path))).build
    try files.getS3AInternals.getAmazonS3Client("read a log").getObject(request)
    catch {
      case failure: SdkException => throw S3AUtils.translateException("read a log", path, failure)
    }
  }

  override def listFrom(path: Path): Iterator[FileStatus] = {
    val folder = path.getParent
    val prefix = files.pathToKey(files.makeQualified(folder)) + "/"
    // A listing starts behind its key, so behind the name without its last letter.
    val before = prefix + path.getName.dropRight(1)
    val request = ListObjectsV2Request.builder
      .bucket(files.getBucket)
      .prefix(prefix)
      .delimiter("/")
      .startAfter(before)
      .build
    files.getS3AInternals
      .getAmazonS3Client("list a log")
      .listObjectsV2Paginator(request)
      .contents
      .asScala
      .iterator
      .map(file => (file.key.drop(prefix.length), file))
      .filter { case (name, _) => name >= path.getName }
      .map { case (name, file) =>
        new FileStatus(file.size, false, 1, 0, file.lastModified.toEpochMilli, new Path(folder, name))
      }
  }

  override def isFile(path: Path): Boolean = files.isFile(path)

  /** Open a file to write it; it is there when the stream is closed, and never where it is aborted.
    *
    * Its own `create.performance` leaves out two looks, whether the path is a folder or a file. No caller depends on them: what
    * must be new is decided by the server.
    */
  private def opened(path: Path, mustBeNew: Boolean): FSDataOutputStream = {
    val file = files.createFile(path).recursive().overwrite(true).opt("fs.s3a.create.performance", true)
    // `must`: where conditional writes are off, it fails at once instead of overwriting.
    if (mustBeNew) file.must("fs.option.create.conditional.overwrite", true)
    file.build()
  }

  private def put(path: Path, content: Array[Byte], mustBeNew: Boolean): Unit = {
    val stream = opened(path, mustBeNew)
    var isWhole = false
    try {
      stream.write(content)
      isWhole = true
    } finally if (isWhole) stream.close() // which uploads; half a file is never uploaded
  }
}
