package strandline

import io.delta.storage.HadoopFileSystemLogStore
import java.io.{ByteArrayOutputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.util.{Arrays, Iterator => JavaIterator}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.hadoop.fs.s3a.S3AFileSystem
import scala.jdk.CollectionConverters._
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request

/** The log of a Delta table on S3: of two drivers that write one version, one wins.
  *
  * None of Delta 4.4's own log stores does this without DynamoDB. They ask whether the file is there and write it then:
  * of two drivers with a hundred appends each, `S3SingleDriverLogStore` lost 2, `GCSLogStore` with the flag `create` 70, and
  * no writer saw an error. Here the server decides, by `If-None-Match: *`.
  *
  * A failed answer is no failed write. When a server has written and its answer is lost, the SDK asks again and meets its own
  * file. So after every failure the file is read back: a commit has a unique id in it, so equal bytes are ours.
  */
class ConditionalLogStore(configuration: Configuration) extends HadoopFileSystemLogStore(configuration) {

  override def write(
      path: Path,
      actions: JavaIterator[String],
      overwrite: java.lang.Boolean,
      configuration: Configuration): Unit = {
    val content = joined(actions)
    val files = path.getFileSystem(configuration)
    if (overwrite) put(files, path, content, mustBeNew = false)
    else
      try put(files, path, content, mustBeNew = true)
      catch {
        case failure: IOException =>
          read(files, path, failure) match {
            case Some(found) if Arrays.equals(found, content) => // our own, whose answer was lost
            case Some(_) =>
              val conflict = new FileAlreadyExistsException(path.toString)
              conflict.initCause(failure)
              throw conflict
            case None => throw failure
          }
      }
  }

  /** List the files of a folder from a name on. The listing starts behind a key, so it does not grow with the table's age. */
  override def listFrom(path: Path, configuration: Configuration): JavaIterator[FileStatus] = {
    path.getFileSystem(configuration) match {
      case files: S3AFileSystem =>
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
        val client = files.getS3AInternals.getAmazonS3Client("list a log")
        client
          .listObjectsV2Paginator(request)
          .contents
          .asScala
          .iterator
          .map(file => (file.key.drop(prefix.length), file))
          .filter { case (name, _) => name >= path.getName }
          .map { case (name, file) =>
            new FileStatus(file.size, false, 1, 0, file.lastModified.toEpochMilli, new Path(folder, name))
          }
          .asJava
      case _ => super.listFrom(path, configuration)
    }
  }

  override def isPartialWriteVisible(path: Path, configuration: Configuration): java.lang.Boolean = false

  private def joined(actions: JavaIterator[String]): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    actions.asScala.foreach { action =>
      bytes.write(action.getBytes(UTF_8))
      bytes.write('\n')
    }
    bytes.toByteArray
  }

  private def put(files: FileSystem, path: Path, content: Array[Byte], mustBeNew: Boolean): Unit = {
    val file = files.createFile(path).recursive().overwrite(true)
    // `must`: where conditional writes are off, it fails at once instead of overwriting.
    if (mustBeNew) file.must("fs.option.create.conditional.overwrite", true)
    val stream = file.build()
    var isWhole = false
    try {
      stream.write(content)
      isWhole = true
    } finally if (isWhole) stream.close() // which uploads; half a commit is never uploaded
  }

  private def read(files: FileSystem, path: Path, failure: IOException): Option[Array[Byte]] =
    try {
      val stream = files.open(path)
      try Some(stream.readAllBytes())
      finally stream.close()
    } catch {
      case _: java.io.FileNotFoundException => None
      case another: IOException =>
        failure.addSuppressed(another)
        throw failure
    }
}
