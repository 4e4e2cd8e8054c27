package strandline

import io.delta.storage.{CloseableIterator, HadoopFileSystemLogStore, LineCloseableIterator}
import java.io.{BufferedReader, ByteArrayOutputStream, InputStreamReader}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Iterator => JavaIterator}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import scala.jdk.CollectionConverters._

/** The log of a Delta table on an object store: of two drivers that write one version, one wins.
  *
  * None of Delta 4.4's own log stores does this on S3 without DynamoDB. They ask whether the file is there and write it then:
  * of two drivers with a hundred appends each, `S3SingleDriverLogStore` lost 2, `GCSLogStore` with the flag `create` 70, and
  * no writer saw an error. Here the server decides (ConditionalWrite.scala). A commit has a unique id in it, so bytes that are
  * equal to those of a commit are that commit.
  */
class ConditionalLogStore(configuration: Configuration) extends HadoopFileSystemLogStore(configuration) {

  override def write(
      path: Path,
      actions: JavaIterator[String],
      overwrite: java.lang.Boolean,
      configuration: Configuration): Unit =
    if (overwrite) door(path, configuration).replace(path, joined(actions))
    else ConditionalWrite.create(door(path, configuration), path, joined(actions))

  /** Read a file of the log. */
  override def read(path: Path, configuration: Configuration): CloseableIterator[String] =
    new LineCloseableIterator(new BufferedReader(new InputStreamReader(door(path, configuration).read(path), UTF_8)))

  /** List the files of a folder from a name on. */
  override def listFrom(path: Path, configuration: Configuration): JavaIterator[FileStatus] =
    door(path, configuration).listFrom(path).asJava

  override def isPartialWriteVisible(path: Path, configuration: Configuration): java.lang.Boolean = false

  private def door(path: Path, configuration: Configuration): StoreDoor = {
    val files = path.getFileSystem(configuration)
    StoreDoor.of(files).getOrElse(throw new IllegalStateException(s"${files.getUri} is no store that creates conditionally"))
  }

  private def joined(actions: JavaIterator[String]): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    actions.asScala.foreach { action =>
      bytes.write(action.getBytes(UTF_8))
      bytes.write('\n')
    }
    bytes.toByteArray
  }
}
