package strandline

import scala.util.control.{NoStackTrace, NonFatal}

import com.fasterxml.jackson.core.{JsonFactory, JsonFactoryBuilder, JsonParser}
import com.fasterxml.jackson.core.JsonToken._
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.json.JSONOptions
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** SQL's function `json_kind(payload, name, …)`, in every session: the text of a field of a JSON payload, where it is a plain one.
  *
  * It answers for the usual payload, and says NULL for any other. There Spark's own reader is asked, whose answer holds for all
  * (jobs/strandline/core/routes.py). It takes several times as long.
  */
class KindFunctions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    val usage = "_FUNC_(payload, name, ...) - Returns the plain text of a field within a JSON payload, or NULL."
    val info = new ExpressionInfo(
      classOf[JsonKind].getName, null, JsonKind.Name, usage, "", "", "", "json_funcs", "4.2.0", "", "built-in")
    extensions.injectFunction((FunctionIdentifier(JsonKind.Name), info, JsonKind.of))
  }
}

object JsonKind {
  val Name = "json_kind"

  def of(arguments: Seq[Expression]): Expression = arguments match {
    case payload +: path if path.nonEmpty && path.forall(_.foldable) => JsonKind(payload, path.map(_.eval().toString))
    case _ => throw new IllegalArgumentException(s"$Name is given a payload, and the names on the way to a field")
  }
}

case class JsonKind(child: Expression, path: Seq[String]) extends UnaryExpression {
  @transient private lazy val reader = new KindReader(path.toArray)

  override def prettyName: String = JsonKind.Name
  override def nullable: Boolean = true
  override def dataType: DataType = StringType

  override def checkInputDataTypes(): TypeCheckResult =
    if (child.dataType == BinaryType) TypeCheckResult.TypeCheckSuccess
    else TypeCheckResult.TypeCheckFailure(s"$prettyName reads bytes")

  override def eval(input: InternalRow): Any = reader.read(child.eval(input).asInstanceOf[Array[Byte]])

  override def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val own = ctx.addReferenceObj("kinds", reader)
    val payload = child.genCode(ctx)
    val text = classOf[UTF8String].getName
    ev.copy(code = code"""
      ${payload.code}
      $text ${ev.value} = $own.read(${payload.isNull} ? null : ${payload.value});
      boolean ${ev.isNull} = ${ev.value} == null;""")
  }

  override protected def withNewChildInternal(made: Expression): JsonKind = copy(child = made)
}

/** Reads a field of payloads. It keeps nothing between them, so threads may share it. */
final class KindReader(path: Array[String]) extends Serializable {
  import KindReader._

  /** With the options of Spark's reader, so that both call the same payloads JSON. */
  @transient private lazy val factory = new JsonFactoryBuilder(
    new JSONOptions(Map("allowSingleQuotes" -> "false"), "UTC").buildJsonFactory())
    // Names are foreign text: they have no place among the JVM's own, and many of one hash are no error.
    .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
    .disable(JsonFactory.Feature.FAIL_ON_SYMBOL_HASH_OVERFLOW)
    .build()

  def read(payload: Array[Byte]): UTF8String =
    if (payload == null || !isUsual(payload)) null
    else {
      val parser = factory.createParser(payload)
      try {
        parser.nextToken()
        within(parser, 0)
      } catch { case NonFatal(_) => null }
      finally parser.close()
    }

  /** Return what the object says at which the parser is; it is read to its end, where it may turn out to be no JSON. */
  private def within(parser: JsonParser, level: Int): UTF8String = {
    val wanted = path(level)
    val isLast = level == path.length - 1
    var found: UTF8String = null
    var name = parser.nextFieldName()
    while (name != null) {
      val token = parser.nextToken()
      if (name != wanted) parser.skipChildren()
      else if (token eq VALUE_NULL) found = null
      else if (isLast && (token eq VALUE_STRING)) found = plain(parser)
      else if (!isLast && (token eq START_OBJECT)) found = within(parser, level + 1)
      else throw Unusual
      name = parser.nextFieldName()
    }
    found
  }
}

private object Unusual extends RuntimeException with NoStackTrace

object KindReader {
  private val Longest = 200

  /** Beyond this, limits of Jackson count bytes for some readers and letters for others. */
  private val Short = 50000

  private val Highest = 0x8080808080808080L

  /** Whether a payload begins as an object, in UTF-8. Eight bytes are looked at once, because most payloads are plain. */
  private def isUsual(payload: Array[Byte]): Boolean =
    payload.length > 1 && payload.length <= Short && payload(0) == '{' && payload(1) != 0 &&
      (isPlain(payload) || UTF8String.fromBytes(payload).isValid)

  private def isPlain(payload: Array[Byte]): Boolean = {
    var high = 0L
    var at = 0
    while (at + 8 <= payload.length) {
      high |= Platform.getLong(payload, Platform.BYTE_ARRAY_OFFSET + at)
      at += 8
    }
    while (at < payload.length) {
      high |= (payload(at) & 0x80L)
      at += 1
    }
    (high & Highest) == 0
  }

  /** The text at which the parser is, of letters and signs of ASCII. */
  private def plain(parser: JsonParser): UTF8String = {
    val length = parser.getTextLength
    if (length == 0 || length > Longest) throw Unusual
    val letters = parser.getTextCharacters
    val first = parser.getTextOffset
    val bytes = new Array[Byte](length)
    var at = 0
    while (at < length) {
      val letter = letters(first + at)
      if (letter < ' ' || letter > '~') throw Unusual
      bytes(at) = letter.toByte
      at += 1
    }
    UTF8String.fromBytes(bytes)
  }
}
