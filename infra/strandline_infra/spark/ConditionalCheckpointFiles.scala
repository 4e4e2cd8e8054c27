package strandline

import java.io.{ByteArrayOutputStream, FileNotFoundException}
import java.nio.file.FileAlreadyExistsException
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException => HadoopFileAlreadyExistsException, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, FileSystemBasedCheckpointFileManager}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** The files of a stream's checkpoint and of its state on a store, and the checksums of Delta's logs: each is one request.
  *
  * Spark writes such a file beside its place and renames it, which a store cannot: a rename there is a copy and a removal, and
  * with the looks before them each file took about ten requests, five files a batch. An object is written whole anyway.
  *
  * A file that must be new (the plan of a batch, the mark that it is done) is created by a condition that the server keeps. Spark's
  * own managers look and then rename, so of two queries over one checkpoint both could believe that they planned a batch; here one
  * is refused, beside the lease of the table, which keeps them apart before.
  */
class ConditionalCheckpointFiles(path: Path, configuration: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, configuration) {

  private val LOGS = Set("offsets", "commits")
  private val STATE = "state"
  private lazy val store = StoreDoor.of(fs)

  override def createAtomic(file: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = store match {
    case Some(door) if overwriteIfPossible => door.replacing(file)
    case Some(door) => new Creating(door, file, new ByteArrayOutputStream())
    case None => super.createAtomic(file, overwriteIfPossible)
  }

  /** Spark asks twice in each batch whether its plan is there, and twice whether it is done. No folder has such a name, so that is
    * one request; Hadoop would list a folder of that name after it.
    */
  override def exists(file: Path): Boolean = store match {
    case Some(door) if LOGS(file.getParent.getName) && file.getName.forall(_.isDigit) => door.isFile(file)
    case Some(_) if file.getName == STATE => hasFiles(file)
    case _ => super.exists(file)
  }

  /** A query that begins is refused where a state is. Hadoop's marks of folders are none: where a checkpoint was removed they stay
    * on Google's store, because the client in Python cannot name a key that ends in a slash.
    */
  private def hasFiles(folder: Path): Boolean =
    try fs.listFiles(folder, true).hasNext
    catch { case _: FileNotFoundException => false }

  /** Keeps what is written, which is small, and creates the file when it is closed. */
  private class Creating(door: StoreDoor, file: Path, content: ByteArrayOutputStream)
      extends CancellableFSDataOutputStream(content) {
    private var isOver = false

    override def close(): Unit = if (!isOver) {
      isOver = true
      try ConditionalWrite.create(door, file, content.toByteArray)
      catch {
        case taken: FileAlreadyExistsException =>
          val conflict = new HadoopFileAlreadyExistsException(s"$file already exists") // as Spark knows it
          conflict.initCause(taken)
          throw conflict
      }
    }

    override def cancel(): Unit = isOver = true
  }
}
