package strandline

import java.net.URI
import java.util.EnumSet

import com.globalmentor.apache.hadoop.fs.BareLocalFileSystem
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{CreateFlag, FSDataOutputStream, Path}
import org.apache.hadoop.fs.Options.ChecksumOpt
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.security.AccessControlException
import org.apache.hadoop.util.Progressable

/** The disk, of which a server writes its scratch folder and nothing else: should a plan ever get past the guard, it fails here. */
class ReadOnlyFiles extends BareLocalFileSystem {
  private var scratch = "/"

  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    scratch = new Path(conf.get("strandline.scratch")).toUri.getPath
  }

  private def own(path: Path): Path = {
    val name = makeQualified(path).toUri.getPath
    if (!s"$name/".startsWith(s"$scratch/")) throw new AccessControlException(s"$name cannot be written: this program only reads")
    path
  }

  override def create(path: Path, mode: FsPermission, over: Boolean, buffer: Int, copies: Short, block: Long,
      progress: Progressable): FSDataOutputStream = super.create(own(path), mode, over, buffer, copies, block, progress)

  override def create(path: Path, mode: FsPermission, flags: EnumSet[CreateFlag], buffer: Int, copies: Short, block: Long,
      progress: Progressable, sums: ChecksumOpt): FSDataOutputStream =
    super.create(own(path), mode, flags, buffer, copies, block, progress, sums)

  override def createNonRecursive(path: Path, mode: FsPermission, flags: EnumSet[CreateFlag], buffer: Int, copies: Short,
      block: Long, progress: Progressable): FSDataOutputStream =
    super.createNonRecursive(own(path), mode, flags, buffer, copies, block, progress)

  override def append(path: Path, buffer: Int, progress: Progressable): FSDataOutputStream =
    super.append(own(path), buffer, progress)

  override def truncate(path: Path, length: Long): Boolean = super.truncate(own(path), length)

  override def rename(from: Path, to: Path): Boolean = super.rename(own(from), own(to))

  override def delete(path: Path, all: Boolean): Boolean = super.delete(own(path), all)

  override def mkdirs(path: Path): Boolean = exists(path) || super.mkdirs(own(path))

  override def mkdirs(path: Path, mode: FsPermission): Boolean = exists(path) || super.mkdirs(own(path), mode)

  override def setPermission(path: Path, mode: FsPermission): Unit = super.setPermission(own(path), mode)
}
