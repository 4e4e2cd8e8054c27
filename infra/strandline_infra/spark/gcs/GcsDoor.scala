package strandline

import com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem
import com.google.cloud.hadoop.repackaged.gcs.com.google.cloud.hadoop.gcsio.{
  CreateObjectOptions,
  GoogleCloudStorageItemInfo,
  ListObjectOptions,
  StorageResourceId
}
import com.google.cloud.hadoop.repackaged.gcs.com.google.cloud.hadoop.util.ApiErrorExtractor
import java.io.{InputStream, IOException}
import java.nio.ByteBuffer
import java.nio.channels.{FileChannel, ReadableByteChannel}
import java.nio.file.StandardOpenOption.READ
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import scala.jdk.CollectionConverters._

/** Files on Google Cloud Storage: what is new is created by `ifGenerationMatch=0`.
  *
  * Hadoop's way to create a file looks first whether it is there, with its folder and its parents; here the write itself is the
  * only request, which the server refuses.
  */
class GcsDoor(store: FileSystem) extends StoreDoor {
  private val files = store.asInstanceOf[GoogleHadoopFileSystem]
  private val ABSENT = 0L
  private val PAGE = 100
  private val ATTEMPTS = 5

  override def create(path: Path, content: Array[Byte]): Unit = {
    val id = object_(path)
    val channel = files.getGcsFs.getGcs
      .create(new StorageResourceId(id.getBucketName, id.getObjectName, ABSENT), CreateObjectOptions.DEFAULT_NO_OVERWRITE)
    channel.write(ByteBuffer.wrap(content))
    channel.close() // which waits for the answer
  }

  override def replace(path: Path, content: Array[Byte]): Unit = overwrite(path) { () =>
    val bytes = ByteBuffer.wrap(content)
    new ReadableByteChannel {
      override def read(into: ByteBuffer): Int = if (!bytes.hasRemaining) -1 else {
        val part = bytes.slice().limit(math.min(into.remaining, bytes.remaining))
        into.put(part)
        bytes.position(bytes.position() + part.limit())
        part.limit()
      }
      override def isOpen: Boolean = true
      override def close(): Unit = ()
    }
  }

  override def replacing(path: Path): CancellableFSDataOutputStream =
    Spooled(draft => overwrite(path)(() => FileChannel.open(draft, READ)))

  override def read(path: Path): InputStream = files.open(path)

  /** Its listing from a name on has no end at a folder, so it is read in small pages, of which the last one that is needed is the
    * first that leaves the folder.
    */
  override def listFrom(path: Path): Iterator[FileStatus] = {
    val folder = path.getParent
    val first = object_(path)
    val prefix = first.getObjectName.dropRight(path.getName.length)
    val options = ListObjectOptions.builder.setDelimiter(null).setIncludePrefix(true).setMaxResults(PAGE).build

    def from(name: String): Iterator[GoogleCloudStorageItemInfo] = {
      val page = files.getGcsFs.getGcs.listObjectInfoStartingFrom(first.getBucketName, name, options).asScala
      val here = page.takeWhile(_.getObjectName.startsWith(prefix))
      if (page.isEmpty || here.size < page.size) here.iterator
      else here.iterator ++ from(here.last.getObjectName + "\u0000")
    }

    from(first.getObjectName)
      .filter(each => each.getObjectName.length > prefix.length && !each.getObjectName.drop(prefix.length).contains('/'))
      .map { each =>
        val name = each.getObjectName.drop(prefix.length)
        new FileStatus(each.getSize, false, 1, 0, each.getModificationTime, new Path(folder, name))
      }
  }

  override def isFile(path: Path): Boolean = files.getGcsFs.getGcs.getItemInfo(object_(path)).exists

  /** Write over what is there, which the client does on the condition that no other writer has done so since it looked; the one who
    * is later wins, as everywhere.
    */
  private def overwrite(path: Path)(content: () => ReadableByteChannel): Unit = {
    def attempt(left: Int): Unit =
      try {
        val from = content()
        try {
          val channel = files.getGcsFs.getGcs.create(object_(path), CreateObjectOptions.DEFAULT_OVERWRITE)
          val buffer = ByteBuffer.allocate(1 << 16)
          while (from.read(buffer) >= 0) {
            buffer.flip()
            while (buffer.hasRemaining) channel.write(buffer)
            buffer.clear()
          }
          channel.close()
        } finally from.close()
      } catch {
        case failure: IOException if left > 1 && isRefused(failure) => attempt(left - 1)
      }
    attempt(ATTEMPTS)
  }

  private def isRefused(failure: IOException): Boolean =
    Iterator.iterate[Throwable](failure)(_.getCause).takeWhile(_ != null).exists {
      case each: IOException => ApiErrorExtractor.INSTANCE.preconditionNotMet(each)
      case _ => false
    }

  private def object_(path: Path): StorageResourceId =
    StorageResourceId.fromStringPath(files.makeQualified(path).toString)
}
