package strandline

import java.io.{FileNotFoundException, IOException}
import java.nio.file.FileAlreadyExistsException
import java.util.Arrays
import org.apache.hadoop.fs.{FileSystem, FSDataOutputStream, Path}

/** Writing a small file on S3 whole, so that of two writers of a new one the server lets one win, by `If-None-Match: *`.
  *
  * A failed answer is no failed write. When a server has written and its answer is lost, the SDK asks again and meets its own
  * file. So after every failure the file is read back: equal bytes are ours.
  */
object ConditionalWrite {

  /** Write a file that does not exist.
    *
    * @throws FileAlreadyExistsException
    *   another writer has written it, and other bytes.
    */
  def create(files: FileSystem, path: Path, content: Array[Byte]): Unit =
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

  /** Write a file, also over another. */
  def replace(files: FileSystem, path: Path, content: Array[Byte]): Unit =
    put(files, path, content, mustBeNew = false)

  /** Open a file to write it, also over another; it is there when the stream is closed, and never where it is aborted.
    *
    * Its own `create.performance` leaves out two looks, whether the path is a folder or a file. No caller depends on them: what
    * must be new is decided by the server.
    */
  def opened(files: FileSystem, path: Path, mustBeNew: Boolean = false): FSDataOutputStream = {
    val file = files.createFile(path).recursive().overwrite(true).opt("fs.s3a.create.performance", true)
    // `must`: where conditional writes are off, it fails at once instead of overwriting.
    if (mustBeNew) file.must("fs.option.create.conditional.overwrite", true)
    file.build()
  }

  private def put(files: FileSystem, path: Path, content: Array[Byte], mustBeNew: Boolean): Unit = {
    val stream = opened(files, path, mustBeNew)
    var isWhole = false
    try {
      stream.write(content)
      isWhole = true
    } finally if (isWhole) stream.close() // which uploads; half a file is never uploaded
  }

  private def read(files: FileSystem, path: Path, failure: IOException): Option[Array[Byte]] =
    try {
      val stream = files.open(path)
      try Some(stream.readAllBytes())
      finally stream.close()
    } catch {
      case _: FileNotFoundException => None
      case another: IOException =>
        failure.addSuppressed(another)
        throw failure
    }
}
