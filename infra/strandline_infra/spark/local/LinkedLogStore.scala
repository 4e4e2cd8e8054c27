package strandline

import io.delta.storage.LocalLogStore
import java.io.{BufferedOutputStream, FileNotFoundException, IOException}
import java.nio.channels.{Channels, FileChannel}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{FileAlreadyExistsException, Files, NoSuchFileException, Path => File}
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.StandardOpenOption.{CREATE_NEW, READ, WRITE}
import java.util.{Iterator => JavaIterator}
import java.util.concurrent.ConcurrentHashMap
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

/** The log of a Delta table on a disk: of two processes that write one version, one wins.
  *
  * Delta's own local stores ask whether the file is there and rename a draft to it then; a rename replaces what another process has
  * written meanwhile, and no writer sees an error. Here the version is a second name of the draft: the kernel gives a name once.
  * delta-rs makes its versions in the same way, so both may write one table.
  *
  * The draft's bytes are on the disk before its name is, so a version is whole or not there also after a power cut. A draft has
  * the name that Delta gives to its own: it begins with a point, and no reader of a log takes it for a version.
  */
class LinkedLogStore(configuration: Configuration) extends LocalLogStore(configuration) {

  override def write(
      path: Path,
      actions: JavaIterator[String],
      overwrite: java.lang.Boolean,
      configuration: Configuration): Unit =
    // A checksum may be replaced by another of the same version: it needs neither.
    if (overwrite || !LinkedLogStore.Version.matches(path.getName)) super.write(path, actions, overwrite, configuration)
    else create(local(path), local(createTempPath(path)), actions)

  private def create(version: File, draft: File, actions: JavaIterator[String]): Unit =
    try {
      written(draft, actions)
      try Files.createLink(version, draft)
      catch {
        // On a network's file system an answer may be lost and the link be asked for again: then it is ours.
        case _: FileAlreadyExistsException if Files.isSameFile(version, draft) =>
        case taken: FileAlreadyExistsException => throw taken
        case refused @ (_: IOException | _: UnsupportedOperationException) => rename(version, draft, refused)
      }
      flush(version.getParent)
    } finally remove(draft)

  private def written(draft: File, actions: JavaIterator[String]): Unit = {
    val file =
      try FileChannel.open(draft, CREATE_NEW, WRITE)
      catch {
        case missing: NoSuchFileException =>
          val none = new FileNotFoundException(s"No such file or directory: ${draft.getParent}")
          none.initCause(missing)
          throw none
      }
    try {
      val lines = new BufferedOutputStream(Channels.newOutputStream(file), 1 << 16)
      while (actions.hasNext) {
        lines.write(actions.next().getBytes(UTF_8))
        lines.write('\n')
      }
      lines.flush()
      file.force(true)
    } finally file.close()
  }

  /** Do what Delta's own store does, where a file cannot have a second name. */
  private def rename(version: File, draft: File, refused: Throwable): Unit = LinkedLogStore.synchronized {
    if (Files.exists(version)) throw new FileAlreadyExistsException(version.toString)
    try Files.move(draft, version, ATOMIC_MOVE)
    catch {
      case failed: IOException =>
        refused.addSuppressed(failed)
        throw refused
    }
    LinkedLogStore.warn(
      "no second names",
      s"$version could have no second name ($refused), so it was renamed to its place. Where the file system has no hard " +
        s"links, only the lock of the table's turn keeps two processes from writing one version: let no other program write there.")
  }

  /** Bring a folder's names to the disk. The version is there already, so a file system that refuses is no failure. */
  private def flush(folder: File): Unit =
    try {
      val opened = FileChannel.open(folder, READ)
      try opened.force(true)
      finally opened.close()
    } catch {
      case refused: IOException =>
        LinkedLogStore.warn("names not flushed", s"The names in $folder could not be flushed to the disk: $refused")
    }

  /** Remove a draft; one that stays is no version. */
  private def remove(draft: File): Unit =
    try Files.deleteIfExists(draft)
    catch {
      case refused: IOException => LinkedLogStore.warn("draft stays", s"A draft could not be removed: $refused")
    }

  private def local(path: Path): File = File.of(path.toUri.getPath)
}

object LinkedLogStore {
  private val Version = "\\d{20}\\.json".r
  private val log = LoggerFactory.getLogger(classOf[LinkedLogStore])
  private val said = ConcurrentHashMap.newKeySet[String]()

  /** Say it once a process: a file system that cannot do it cannot at the next commit either. */
  private def warn(what: String, sentence: String): Unit = if (said.add(what)) log.warn(sentence)
}
