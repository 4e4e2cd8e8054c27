package strandline

import java.io.ByteArrayOutputStream
import java.nio.file.FileAlreadyExistsException
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException => HadoopFileAlreadyExistsException, Path}
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, FileSystemBasedCheckpointFileManager}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** The files of a stream's checkpoint and of its state on S3, and the checksums of Delta's logs: each is one request.
  *
  * Spark writes such a file beside its place and renames it, which a store cannot: a rename there is a copy and a removal, and
  * with the looks before them each file took about ten requests, five files a batch. An object is written whole anyway.
  *
  * A file that must be new (the plan of a batch, the mark that it is done) is created by `If-None-Match: *`. Spark's own managers
  * look and then rename, so of two queries over one checkpoint both could believe that they planned a batch; here one is refused,
  * beside the lease of the table, which keeps them apart before.
  */
class ConditionalCheckpointFiles(path: Path, configuration: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, configuration) {

  private val LOGS = Set("offsets", "commits")

  override def createAtomic(file: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = fs match {
    case files: S3AFileSystem if overwriteIfPossible => new Replacing(ConditionalWrite.opened(files, file))
    case files: S3AFileSystem => new Creating(files, file, new ByteArrayOutputStream())
    case _ => super.createAtomic(file, overwriteIfPossible)
  }

  /** Spark asks twice in each batch whether its plan is there, and twice whether it is done. No folder has such a name, so that is
    * one request; S3A would list a folder of that name after it.
    */
  override def exists(file: Path): Boolean = fs match {
    case files: S3AFileSystem if LOGS(file.getParent.getName) && file.getName.forall(_.isDigit) => files.isFile(file)
    case _ => super.exists(file)
  }

  /** Uploads what is written, in parts where it is large; what is cancelled is never there. */
  private class Replacing(stream: FSDataOutputStream) extends CancellableFSDataOutputStream(stream) {
    override def cancel(): Unit = stream.abort()
  }

  /** Keeps what is written, which is small, and creates the file when it is closed. */
  private class Creating(files: S3AFileSystem, file: Path, content: ByteArrayOutputStream)
      extends CancellableFSDataOutputStream(content) {
    private var isOver = false

    override def close(): Unit = if (!isOver) {
      isOver = true
      try ConditionalWrite.create(files, file, content.toByteArray)
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
