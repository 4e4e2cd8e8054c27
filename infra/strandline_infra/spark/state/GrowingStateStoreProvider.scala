package org.apache.spark.sql.execution.streaming.state

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.types.StructType

/** Keeps a partition of a query's state in memory while it is small, and in RocksDB from the batch on for which it is too large.
  *
  * Both are Spark's own, with their own files: `N.delta` and `N.snapshot` in memory, `N.changelog` and `N.zip` in RocksDB. A look at the
  * files of a version says where it is, so a batch that is done again after a crash goes on from the right one, and needs no other note.
  * A partition moves within a batch: RocksDB begins with all pairs of the version before, and commits the next one as a snapshot.
  *
  * It is for state that is looked up by whole keys (`dropDuplicates`). Spark keeps the name of this class in the checkpoint.
  */
class GrowingStateStoreProvider extends StateStoreProvider with Logging {
  import GrowingStateStoreProvider._

  private var id: StateStoreId = _
  private var start: StateStoreProvider => Unit = _
  private var files: Files = _
  private var limit: Limit = _
  private var retained = 0

  private val closing = new Object
  @volatile private var memory: HDFSBackedStateStoreProvider = _
  @volatile private var disk: RocksDBStateStoreProvider = _

  /** The versions from this one on are in RocksDB. */
  @volatile private var firstOnDisk = Nowhere
  @volatile private var latest = -1L
  private var isKnown, isCleared = false

  /** Whether an earlier try of the batch that is next may have left its version in RocksDB. */
  private var mayBeTwice = true

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConf: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]): Unit = {
    id = stateStoreId
    start = _.init(stateStoreId, keySchema, valueSchema, keyStateEncoderSpec, useColumnFamilies, storeConf, hadoopConf,
      useMultipleValuesPerKey, stateSchemaProvider)
    files = new Files(stateStoreId.storeCheckpointLocation(), hadoopConf)
    limit = Limit.of(storeConf)
    retained = storeConf.minVersionsToRetain
  }

  override def stateStoreId: StateStoreId = id

  override def getStore(version: Long, checkpointId: Option[String], isForced: Boolean, isEmpty: Boolean): StateStore =
    synchronized {
      look(version)
      latest = version
      if (version >= firstOnDisk) onDisk.getStore(version, checkpointId, isForced, isEmpty)
      else {
        // Here, before anything is written: what is large as it is loaded moves in the first batch after a start.
        val store = inMemory.getStore(version, checkpointId, isForced, isEmpty)
        if (version > 0 && limit.isExceeded(this, inMemory.getMetricsForProvider()("memoryUsedBytes"))) {
          store.abort()
          moved(version)
        } else {
          if (mayBeTwice) files.remove(version + 1, OnDisk)
          mayBeTwice = false
          firstOnDisk = Nowhere
          store
        }
      }
    }

  override def getReadStore(version: Long, checkpointId: Option[String]): ReadStateStore = synchronized {
    look(version)
    if (version >= firstOnDisk) onDisk.getReadStore(version, checkpointId) else inMemory.getReadStore(version, checkpointId)
  }

  /** Find out where a version is. Where a try of a batch left one in both, the one in memory has all before it. */
  private def look(version: Long): Unit = if (!isKnown) {
    val names = files.of(version)
    if (names.exists(OnDisk) && !names.exists(InMemory)) firstOnDisk = version
    isKnown = true
  }

  private def moved(version: Long): StateStore = {
    val began = System.nanoTime()
    val from = inMemory.getReadStore(version)
    try {
      files.remove(version + 1, InMemory)
      val store = onDisk.getStore(version, None, forceSnapshotOnCommit = true, loadEmpty = true)
      try from.iterator().foreach(pair => store.put(pair.key, pair.value))
      catch { case error: Throwable => store.abort(); throw error }
      firstOnDisk = version + 1
      mayBeTwice = true
      logWarning(s"state of $id is too large for memory and moves to RocksDB (${(System.nanoTime() - began) / 1000000} ms)")
      store
    } finally {
      from.abort()
      leaveMemory()
    }
  }

  private def inMemory: HDFSBackedStateStoreProvider = {
    if (memory == null) {
      val made = new HDFSBackedStateStoreProvider
      start(made)
      memory = made
    }
    memory
  }

  private def onDisk: RocksDBStateStoreProvider = {
    if (disk == null) {
      val made = new RocksDBStateStoreProvider
      start(made)
      disk = made
    }
    disk
  }

  private def leaveMemory(): Unit = closing.synchronized {
    if (memory != null) memory.close()
    memory = null
    sizes.remove(this)
  }

  override def close(): Unit = synchronized {
    leaveMemory()
    closing.synchronized {
      if (disk != null) disk.close()
      disk = null
    }
  }

  override def doMaintenance(): Unit = closing.synchronized {
    if (memory != null) memory.doMaintenance()
    if (disk != null) disk.doMaintenance()
    // As long as a version in memory may be asked for, its files stay, as those of old versions do in either.
    if (firstOnDisk != Nowhere && !isCleared && latest >= firstOnDisk + retained) {
      files.removeAll(InMemory)
      isCleared = true
    }
  }

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] =
    both.flatMap(_.supportedCustomMetrics).distinctBy(_.name)

  override def supportedInstanceMetrics: Seq[StateStoreInstanceMetric] =
    both.flatMap(_.supportedInstanceMetrics).distinctBy(_.metricPrefix)

  private def both: Seq[StateStoreProvider] = Seq(new HDFSBackedStateStoreProvider, new RocksDBStateStoreProvider)
}

object GrowingStateStoreProvider {
  private val Nowhere = Long.MaxValue
  private val InMemory = (name: String) => name.endsWith(".delta") || name.endsWith(".snapshot")
  private val OnDisk = (name: String) => name.endsWith(".changelog") || name.endsWith(".zip")

  /** The bytes that each partition had in memory when its last batch began. */
  private val sizes = new ConcurrentHashMap[GrowingStateStoreProvider, Long]()

  /** How much memory the state of a partition may take, and that of all in this process.
    *
    * Two versions of each are kept, and a third while a batch runs; what a map is measured to have is less than what it takes then.
    */
  private case class Limit(one: Long, all: Long) {
    def isExceeded(provider: GrowingStateStoreProvider, bytes: Long): Boolean = {
      sizes.put(provider, bytes)
      val sum = sizes.values.stream.mapToLong(each => each).sum
      bytes > one || (sum > all && bytes >= sum / math.max(1, sizes.size))
    }
  }

  private object Limit {
    private val Name = "spark.sql.streaming.stateStore.memoryLimit"

    def of(conf: StateStoreConf): Limit = {
      val heap = Runtime.getRuntime.maxMemory
      Limit(conf.sqlConfs.get(Name).map(_.toLong).getOrElse(heap / 16), heap / 5)
    }
  }

  private final class Files(folder: Path, conf: Configuration) {
    private lazy val system: FileSystem = folder.getFileSystem(conf)

    def of(version: Long): Seq[String] = all.filter(_.startsWith(s"$version."))

    def remove(version: Long, kind: String => Boolean): Unit = of(version).filter(kind).foreach(removeOne)

    def removeAll(kind: String => Boolean): Unit = all.filter(kind).foreach(removeOne)

    private def all: Seq[String] = if (system.exists(folder)) system.listStatus(folder).toSeq.map(_.getPath.getName) else Nil

    private def removeOne(name: String): Unit =
      Seq(name, s"$name.crc").foreach(each => system.delete(new Path(folder, each), false))
  }
}
