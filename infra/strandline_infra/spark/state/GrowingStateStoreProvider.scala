package org.apache.spark.sql.execution.streaming.state

import java.util.UUID
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

/** Keeps a partition of a query's state in memory while it is small, and in RocksDB from the batch on for which it is too large.
  *
  * Both are Spark's own, with their own files: `N.delta` and `N.snapshot` in memory, `N.changelog` and `N.zip` in RocksDB. A look at the
  * files of a version says where it is, so a batch that is done again after a crash goes on from the right one, and needs no other note.
  * A partition moves in the middle of a batch, so that not even the first one, which may have a million keys, takes more memory than
  * that: RocksDB begins with all pairs that there are, and commits the next version as a snapshot.
  *
  * It is for state that is looked up by whole keys (`dropDuplicates`). Spark keeps the name of this class in the checkpoint.
  */
class GrowingStateStoreProvider extends StateStoreProvider with Logging {
  import GrowingStateStoreProvider._

  private var id: StateStoreId = _
  private var start: StateStoreProvider => Unit = _
  private var files: Files = _
  private var limit: Limit = _
  private var run: StateStoreProviderId = _
  private var retained = 0

  private val closing = new Object
  @volatile private var memory: HDFSBackedStateStoreProvider = _
  @volatile private var disk: RocksDBStateStoreProvider = _

  /** The versions from this one on are in RocksDB. */
  @volatile private var firstOnDisk = Nowhere
  @volatile private var latest = Unasked
  private var isCleared, isClosed = false

  /** Whether an earlier try of the batch that is next has left its version in RocksDB. */
  private var mayBeTwice = false

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
    run = StateStoreProviderId(stateStoreId, UUID.fromString(StateStoreProvider.getRunId(hadoopConf)))
    retained = storeConf.minVersionsToRetain
  }

  override def stateStoreId: StateStoreId = id

  override def getStore(version: Long, checkpointId: Option[String], isForced: Boolean, isEmpty: Boolean): StateStore =
    synchronized {
      look(version)
      latest = version
      if (version >= firstOnDisk) onDisk.getStore(version, checkpointId, isForced, isEmpty)
      else {
        // Of an earlier try of this batch that moved; the version would be in both.
        if (mayBeTwice) files.remove(version + 1, OnDisk)
        mayBeTwice = false
        firstOnDisk = Nowhere
        leaveDisk()
        val store = new GrowingStore(inMemory.getStore(version, checkpointId, isForced, isEmpty), leave(version, _), isTooLarge)
        store.measure(inMemory.getMetricsForProvider()("memoryUsedBytes"))
        store
      }
    }

  override def getReadStore(version: Long, checkpointId: Option[String]): ReadStateStore = synchronized {
    look(version)
    if (version >= firstOnDisk) onDisk.getReadStore(version, checkpointId) else inMemory.getReadStore(version, checkpointId)
  }

  /** Find out where a version is, unless this provider has just made it and knows.
    *
    * Another executor may have made it meanwhile, or made it again. Where a try of a batch left one in both, the one in memory has all
    * before it.
    */
  private def look(version: Long): Unit = {
    if (isClosed) throw new IllegalStateException(s"$this is closed")
    if (version != latest + 1 || version == firstOnDisk) {
      val names = files.all
      val own = names.filter(isOf(version))
      firstOnDisk = if (own.exists(OnDisk) && !own.exists(InMemory)) version else Nowhere
      mayBeTwice = names.filter(isOf(version + 1)).exists(OnDisk)
    }
  }

  /** Return where state goes on that has become too large for memory, with all that the batch has made of it so far. */
  private def leave(version: Long, from: StateStore): StateStore = synchronized {
    val began = System.nanoTime()
    files.remove(version + 1, InMemory)
    val store = onDisk.getStore(version, None, forceSnapshotOnCommit = true, loadEmpty = true)
    try from.iterator().zipWithIndex.foreach { case (pair, number) =>
      store.put(pair.key, pair.value)
      if (number % Often == 0) Option(TaskContext.get()).foreach(_.killTaskIfInterrupted())
    } catch { case error: Throwable => store.abort(); throw error }
    from.abort()
    leaveMemory()
    firstOnDisk = version + 1
    logWarning(s"state of $id is too large for memory and moves to RocksDB (${(System.nanoTime() - began) / 1000000} ms)")
    store
  }

  private def isTooLarge(bytes: Long): Boolean = limit.isExceeded(this, bytes)

  /** Whether Spark has no further use for it, and will close it at its next look, a minute away. */
  private def hasEnded: Boolean =
    StateStoreProvider.coordinatorRef.exists(!_.verifyIfInstanceActive(run, SparkEnv.get.executorId))

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
    sizes.computeIfPresent(id, (_, size) => if (size.of eq this) null else size)
  }

  private def leaveDisk(): Unit = closing.synchronized {
    if (disk != null) disk.close()
    disk = null
  }

  override def close(): Unit = synchronized {
    isClosed = true
    leaveMemory()
    leaveDisk()
  }

  override def doMaintenance(): Unit = closing.synchronized {
    if (memory != null) memory.doMaintenance()
    if (disk != null) disk.doMaintenance()
    if (firstOnDisk != Nowhere && !isCleared) {
      // What Spark's own do not do either: an error here would make it close the provider of a running query.
      try isCleared = files.clear(InMemory, latest - retained)
      catch { case NonFatal(error) => logWarning(s"files of $id in memory cannot be removed yet: $error") }
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
  private val Unasked = -2L
  private val InMemory = (name: String) => name.endsWith(".delta") || name.endsWith(".snapshot")
  private val OnDisk = (name: String) => name.endsWith(".changelog") || name.endsWith(".zip")

  private val Number = "^[0-9]+".r

  private def isOf(version: Long)(name: String): Boolean = name.startsWith(s"$version.")

  /** Pairs between two looks at what is rarely so. */
  private val Often = 1024

  /** The bytes that each partition has in memory; of a query that began again, what its last run has left counts no more. */
  private val sizes = new ConcurrentHashMap[StateStoreId, Size]()

  private case class Size(of: GrowingStateStoreProvider, bytes: Long)

  /** How much memory the state of a partition may take, and that of all in this process. */
  private case class Limit(one: Long, all: Long) {
    def isExceeded(provider: GrowingStateStoreProvider, bytes: Long): Boolean = {
      sizes.put(provider.id, Size(provider, bytes))
      bytes > one || (isLarge(bytes) && { leaveEnded(provider); isLarge(bytes) })
    }

    /** Whether all together have too much, and one of so many bytes has no less than its share. */
    private def isLarge(bytes: Long): Boolean = {
      val sum = sizes.values.stream.mapToLong(_.bytes).sum
      sum > all && bytes >= sum / math.max(1, sizes.size)
    }

  }

  /** Close what queries of this process have left that have ended, other than a provider that asks.
    *
    * Spark does it a minute later. Until then the heap is full of it, and a table that is run after another would go to disk on account of
    * the other. In a thread of its own, since two that end at once would wait for each other.
    */
  private def leaveEnded(but: GrowingStateStoreProvider): Unit = sizes.forEach { (id, size) =>
    if ((size.of ne but) && size.of.hasEnded && sizes.remove(id, size))
      CompletableFuture.runAsync(() => StateStore.doMaintenanceAndUnload(size.of.run))
  }

  /** Without a provider that asks: what begins a query and has seen it end. */
  def leaveEnded(): Unit = leaveEnded(null)

  private object Limit {
    private val Name = "spark.sql.streaming.stateStore.memoryLimit"

    def of(conf: StateStoreConf): Limit = {
      val heap = Runtime.getRuntime.maxMemory
      def set(name: String, otherwise: Long): Long = conf.sqlConfs.get(name).map(_.toLong).getOrElse(otherwise)
      Limit(one = set(Name, heap / 8), all = set(s"$Name.all", heap / 4))
    }
  }

  private final class Files(folder: Path, conf: Configuration) {
    private lazy val system: FileSystem = folder.getFileSystem(conf)

    def remove(version: Long, kind: String => Boolean): Unit = all.filter(isOf(version)).filter(kind).foreach(removeOne)

    /** Remove the files of a kind once none of them is younger than a version; return whether none is left. */
    def clear(kind: String => Boolean, until: Long): Boolean = {
      val found = all.filter(kind)
      val isOver = found.forall(name => Number.findFirstIn(name).forall(_.toLong <= until))
      if (isOver) found.foreach(removeOne)
      isOver
    }

    def all: Seq[String] = if (system.exists(folder)) system.listStatus(folder).toSeq.map(_.getPath.getName) else Nil

    private def removeOne(name: String): Unit =
      Seq(name, s"$name.crc").foreach(each => system.delete(new Path(folder, each), false))
  }
}

/** The state of a batch that began in memory.
  *
  * @param leave Makes where it goes on.
  * @param isTooLarge Whether so many bytes are too many.
  */
private class GrowingStore(
    private var store: StateStore, leave: StateStore => StateStore, isTooLarge: Long => Boolean) extends StateStore {
  import GrowingStore._

  private var bytes = 0L
  private var puts = 0
  private var isInMemory = true

  /** Take over how much memory it has, and leave where that is too much. */
  def measure(measured: Long): Unit = {
    bytes = measured
    if (isTooLarge(bytes)) move()
  }

  private def move(): Unit = {
    store = leave(store)
    isInMemory = false
  }

  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {
    store.put(key, value, family)
    if (isInMemory) {
      bytes += Pair + key.getSizeInBytes + value.getSizeInBytes
      puts += 1
      if (puts % Often == 0 && isTooLarge(bytes)) move()
    }
  }

  override def id: StateStoreId = store.id
  override def version: Long = store.version
  override def get(key: UnsafeRow, family: String): UnsafeRow = store.get(key, family)
  override def keyExists(key: UnsafeRow, family: String): Boolean = store.keyExists(key, family)
  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = store.valuesIterator(key, family)
  override def prefixScan(key: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] = store.prefixScan(key, family)
  override def prefixScanWithMultiValues(key: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    store.prefixScanWithMultiValues(key, family)
  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] = store.iterator(family)
  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] = store.iteratorWithMultiValues(family)
  override def allColumnFamilyNames: Set[String] = store.allColumnFamilyNames

  override def removeColFamilyIfExists(family: String): Boolean = store.removeColFamilyIfExists(family)
  override def createColFamilyIfAbsent(
      family: String, keys: StructType, values: StructType, spec: KeyStateEncoderSpec, many: Boolean, own: Boolean): Unit =
    store.createColFamilyIfAbsent(family, keys, values, spec, many, own)
  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = store.putList(key, values, family)
  override def remove(key: UnsafeRow, family: String): Unit = store.remove(key, family)
  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = store.merge(key, value, family)
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = store.mergeList(key, values, family)

  override def commit(): Long = store.commit()
  override def abort(): Unit = store.abort()
  override def release(): Unit = store.release()
  /** Without the number of keys, which RocksDB counts at twice the price of a change, and so is not asked for. */
  override def metrics: StateStoreMetrics = store.metrics.copy(numKeys = -1L)
  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = store.getStateStoreCheckpointInfo()
  override def hasCommitted: Boolean = store.hasCommitted
}

private object GrowingStore {
  /** What Java adds to the bytes of a pair: two rows, two arrays, and their node of the map. */
  val Pair = 150L

  /** All partitions of the process are summed up once in so many pairs. */
  val Often = 1024
}
