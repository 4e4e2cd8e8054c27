package strandline

import java.io.{FileNotFoundException, IOException}
import java.nio.file.FileAlreadyExistsException
import java.util.Arrays
import org.apache.hadoop.fs.Path

/** Writing a small file on a store whole, so that of two writers of a new one the server lets one win.
  *
  * A failed answer is no failed write. When a server has written and its answer is lost, its client asks again and meets its own
  * file. So after every failure the file is read back: equal bytes are ours.
  */
object ConditionalWrite {

  /** Write a file that does not exist.
    *
    * @throws FileAlreadyExistsException
    *   another writer has written it, and other bytes.
    */
  def create(store: StoreDoor, path: Path, content: Array[Byte]): Unit =
    try store.create(path, content)
    catch {
      case failure: IOException =>
        read(store, path, failure) match {
          case Some(found) if Arrays.equals(found, content) => // our own, whose answer was lost
          case Some(_) =>
            val conflict = new FileAlreadyExistsException(path.toString)
            conflict.initCause(failure)
            throw conflict
          case None => throw failure
        }
    }

  private def read(store: StoreDoor, path: Path, failure: IOException): Option[Array[Byte]] =
    try {
      val stream = store.read(path)
      try Some(stream.readAllBytes())
      finally stream.close()
    } catch {
      case _: FileNotFoundException => None
      case another: IOException =>
        failure.addSuppressed(another)
        throw failure
    }
}
