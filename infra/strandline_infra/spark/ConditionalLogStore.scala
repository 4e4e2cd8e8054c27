package strandline

import io.delta.storage.{CloseableIterator, HadoopFileSystemLogStore, LineCloseableIterator}
import java.io.{BufferedReader, ByteArrayOutputStream, InputStreamReader}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Iterator => JavaIterator}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.fs.s3a.{S3AFileSystem, S3AUtils}
import scala.jdk.CollectionConverters._
import software.amazon.awssdk.core.exception.SdkException
import software.amazon.awssdk.services.s3.model.{GetObjectRequest, ListObjectsV2Request}

/** The log of a Delta table on S3: of two drivers that write one version, one wins.
  *
  * None of Delta 4.4's own log stores does this without DynamoDB. They ask whether the file is there and write it then:
  * of two drivers with a hundred appends each, `S3SingleDriverLogStore` lost 2, `GCSLogStore` with the flag `create` 70, and
  * no writer saw an error. Here the server decides (ConditionalWrite.scala). A commit has a unique id in it, so bytes that are
  * equal to those of a commit are that commit.
  */
class ConditionalLogStore(configuration: Configuration) extends HadoopFileSystemLogStore(configuration) {

  override def write(
      path: Path,
      actions: JavaIterator[String],
      overwrite: java.lang.Boolean,
      configuration: Configuration): Unit = {
    val files = path.getFileSystem(configuration)
    if (overwrite) ConditionalWrite.replace(files, path, joined(actions))
    else ConditionalWrite.create(files, path, joined(actions))
  }

  /** Read a file of the log by one request; Hadoop's way to open a file asks for its size first. */
  override def read(path: Path, configuration: Configuration): CloseableIterator[String] =
    path.getFileSystem(configuration) match {
      case files: S3AFileSystem =>
        val request = GetObjectRequest.builder.bucket(files.getBucket).key(files.pathToKey(files.makeQualified(path))).build
        val client = files.getS3AInternals.getAmazonS3Client("read a log")
        try new LineCloseableIterator(new BufferedReader(new InputStreamReader(client.getObject(request), UTF_8)))
        catch {
          case failure: SdkException => throw S3AUtils.translateException("read a log", path, failure)
        }
      case _ => super.read(path, configuration)
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
}
