package strandline

import java.io.{FileNotFoundException, InputStream}
import java.nio.file.Files
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem
import org.apache.hadoop.fs.azurebfs.constants.{AbfsServiceType, FSOperationType}
import org.apache.hadoop.fs.azurebfs.services.WholeBlob
import org.apache.hadoop.fs.azurebfs.utils.{TracingContext, TracingHeaderFormat}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** Files on Azure's storage: what is new is created by `If-None-Match: *`, through the account's blob interface.
  *
  * Accounts with and without a hierarchy of folders have that interface, and it alone writes a file with its content by one request.
  */
class AzureDoor(store: FileSystem) extends StoreDoor {
  private val files = store.asInstanceOf[AzureBlobFileSystem]
  private val PART = 8 << 20

  override def create(path: Path, content: Array[Byte]): Unit =
    WholeBlob.put(client, named(path), content, mustBeNew = true, context)

  override def replace(path: Path, content: Array[Byte]): Unit =
    WholeBlob.put(client, named(path), content, mustBeNew = false, context)

  override def replacing(path: Path): CancellableFSDataOutputStream = Spooled { draft =>
    if (Files.size(draft) <= PART) replace(path, Files.readAllBytes(draft))
    else {
      val content = Files.newInputStream(draft)
      try {
        val parts = Iterator.continually(content.readNBytes(PART)).takeWhile(_.nonEmpty).zipWithIndex
        val count = parts.map { case (part, number) =>
          WholeBlob.stage(client, named(path), number, part, part.length, context)
        }.size
        WholeBlob.finish(client, named(path), count, context)
      } finally content.close()
    }
  }

  override def read(path: Path): InputStream = files.open(path)

  /** Azure's listing begins at a mark that only Azure gives, so the whole folder is listed, five thousand files a request. */
  override def listFrom(path: Path): Iterator[FileStatus] =
    try files.listStatus(path.getParent).iterator.filter(_.getPath.getName >= path.getName).toSeq.sortBy(_.getPath.getName).iterator
    catch {
      case _: FileNotFoundException => Iterator.empty
    }

  override def isFile(path: Path): Boolean =
    try files.getFileStatus(path).isFile
    catch {
      case _: FileNotFoundException => false
    }

  private def client = files.getAbfsStore.getClient(AbfsServiceType.BLOB)

  private def named(path: Path): String = files.makeQualified(path).toUri.getPath

  private def context: TracingContext =
    new TracingContext("", "strandline", FSOperationType.CREATE, TracingHeaderFormat.SINGLE_ID_FORMAT, null)
}
