package strandline

import java.util.Arrays

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, BoundReference, Expression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.columnar.{CachedBatch, CachedBatchSerializer}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.storage.StorageLevel
import org.apache.spark.unsafe.Platform

/** Keeps rows that are cached as they are, one behind the other.
  *
  * Spark's own turns each row into columns, with the least and the greatest value of each, and back. That is made for a table which is
  * asked many times by a few columns. A batch is cached to be read twice, whole, and the columns were a seventh of silver's work.
  */
class RowCache extends CachedBatchSerializer {
  override def supportsColumnarInput(schema: Seq[Attribute]): Boolean = false
  override def supportsColumnarOutput(schema: StructType): Boolean = false

  override def convertInternalRowToCachedBatch(
      input: RDD[InternalRow], schema: Seq[Attribute], level: StorageLevel, conf: SQLConf): RDD[CachedBatch] =
    input.mapPartitions(new RowPacker(_, schema))

  override def convertCachedBatchToInternalRow(
      input: RDD[CachedBatch], cached: Seq[Attribute], selected: Seq[Attribute], conf: SQLConf): RDD[InternalRow] = {
    val ids = cached.map(_.exprId)
    val places = selected.map(each => ids.indexOf(each.exprId))
    if (places == cached.indices) input.mapPartitions(new RowReader(_, cached.length))
    else {
      val fields = places.zip(selected).map { case (at, each) => BoundReference(at, each.dataType, each.nullable) }
      input.mapPartitions(new RowReader(_, cached.length).map(UnsafeProjection.create(fields)))
    }
  }

  /** Nothing is known of a batch by which it could be passed over. */
  override def buildFilter(
      predicates: Seq[Expression], cached: Seq[Attribute]): (Int, Iterator[CachedBatch]) => Iterator[CachedBatch] =
    (_, batches) => batches

  override def convertColumnarBatchToCachedBatch(
      input: RDD[ColumnarBatch], schema: Seq[Attribute], level: StorageLevel, conf: SQLConf): RDD[CachedBatch] =
    throw new UnsupportedOperationException("rows are kept, not columns")

  override def convertCachedBatchToColumnarBatch(
      input: RDD[CachedBatch], cached: Seq[Attribute], selected: Seq[Attribute], conf: SQLConf): RDD[ColumnarBatch] =
    throw new UnsupportedOperationException("rows are kept, not columns")
}

/** Rows as bytes, each behind its length.
  *
  * @param used The bytes that are rows; there may be more.
  */
case class RowBatch(numRows: Int, bytes: Array[Byte], used: Int) extends CachedBatch {
  override def sizeInBytes: Long = used
}

private final class RowPacker(rows: Iterator[InternalRow], schema: Seq[Attribute]) extends Iterator[CachedBatch] {
  import RowBatch._

  private lazy val packed = UnsafeProjection.create(schema, schema)
  private var waiting: UnsafeRow = _

  override def hasNext: Boolean = waiting != null || rows.hasNext

  override def next(): CachedBatch = {
    var bytes = new Array[Byte](First)
    var used = 0
    var count = 0
    while (fetch() && (count == 0 || used.toLong + Prefix + waiting.getSizeInBytes <= Full)) {
      val size = waiting.getSizeInBytes
      val end = Math.addExact(used, Prefix + size)
      if (end > bytes.length) bytes = Arrays.copyOf(bytes, math.max(end, math.min(2 * bytes.length, Full)))
      Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET + used, size)
      waiting.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET + used + Prefix)
      waiting = null
      used = end
      count += 1
    }
    RowBatch(count, if (used < bytes.length / 4 * 3) Arrays.copyOf(bytes, used) else bytes, used)
  }

  private def fetch(): Boolean = {
    if (waiting == null && rows.hasNext) waiting = rows.next() match {
      case row: UnsafeRow => row
      case other => packed(other)
    }
    waiting != null
  }
}

object RowBatch {
  /** A row begins at a multiple of eight bytes, as its fields do. */
  val Prefix = 8
  val First: Int = 16 << 10

  /** Bytes of a batch, which is what memory gives up at once; a longer row is a batch of its own. */
  val Full: Int = 1 << 20
}

private final class RowReader(batches: Iterator[CachedBatch], fields: Int) extends Iterator[InternalRow] {
  import RowBatch.Prefix

  private val row = new UnsafeRow(fields)
  private var bytes: Array[Byte] = _
  private var at, used = 0

  override def hasNext: Boolean = {
    while (at == used && batches.hasNext) {
      val batch = batches.next().asInstanceOf[RowBatch]
      bytes = batch.bytes
      used = batch.used
      at = 0
    }
    at < used
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    val size = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at).toInt
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + at + Prefix, size)
    at += Prefix + size
    row
  }
}
