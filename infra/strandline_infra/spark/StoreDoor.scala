package strandline

import java.io.{FileOutputStream, InputStream}
import java.nio.file.{Files, Path => LocalPath}
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** What an object store does for which Hadoop's file system has no words. Each kind of store has its own, in a folder beside this. */
trait StoreDoor {

  /** Write a file whole that does not exist; the server refuses it where it does, by whatever error of its client. */
  def create(path: Path, content: Array[Byte]): Unit

  /** Write a file whole, also over another. */
  def replace(path: Path, content: Array[Byte]): Unit

  /** Open a file to write it, also over another; it is there when the stream is closed, and never where it is cancelled. */
  def replacing(path: Path): CancellableFSDataOutputStream

  /** Read a file, by as few requests as there may be. */
  def read(path: Path): InputStream

  /** List the files of a folder from a name on; the listing starts there, so it does not grow with the table's age. */
  def listFrom(path: Path): Iterator[FileStatus]

  /** Return whether there is a file of this name, by one request. */
  def isFile(path: Path): Boolean
}

object StoreDoor {

  private val DOORS = Map(
    "s3a" -> "strandline.S3Door",
    "gs" -> "strandline.GcsDoor",
    "abfss" -> "strandline.AzureDoor")

  /** The door of a file system; none for one that is no store, or none that is known. */
  def of(files: FileSystem): Option[StoreDoor] = DOORS.get(files.getUri.getScheme).map { name =>
    // By its name: a lake has the client of one cloud, and a class that names another's does not load.
    Class.forName(name).getConstructor(classOf[FileSystem]).newInstance(files).asInstanceOf[StoreDoor]
  }
}

/** A file that is written to the disk first and uploaded when it is closed: of what is cancelled the store hears nothing, and a state
  * of some hundred megabytes takes no memory.
  */
class Spooled private (draft: LocalPath, upload: LocalPath => Unit)
    extends CancellableFSDataOutputStream(new FileOutputStream(draft.toFile)) {
  private var isOver = false

  override def close(): Unit = if (!isOver) {
    isOver = true
    try {
      super.close()
      upload(draft)
    } finally Files.deleteIfExists(draft)
  }

  override def cancel(): Unit = if (!isOver) {
    isOver = true
    try super.close()
    finally Files.deleteIfExists(draft)
  }
}

object Spooled {
  def apply(upload: LocalPath => Unit): Spooled = new Spooled(Files.createTempFile("upload", ""), upload)
}
