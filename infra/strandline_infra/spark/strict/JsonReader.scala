package strandline

import java.io.{ByteArrayOutputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.ZoneId

import scala.collection.mutable.ArrayBuffer
import scala.util.control.{NoStackTrace, NonFatal}

import com.fasterxml.jackson.core.{JsonEncoding, JsonFactory, JsonFactoryBuilder, JsonParser, JsonToken}
import com.fasterxml.jackson.core.JsonToken._
import com.fasterxml.jackson.core.exc.{InputCoercionException, StreamConstraintsException}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.json.{JacksonParser, JSONOptions}
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, DateTimeUtils, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Reads payloads: each is exactly one JSON object of the declared types, or has a problem.
  *
  * One pass finds values, wrong types and what is no JSON. What is rare is read a second time: a payload that goes on behind its
  * object, and one that is no UTF-8.
  *
  * There are two kinds of wrong types, because Spark's own reader has them and the quarantine keeps the times of what it holds.
  * Where Spark can read a value as nothing (a text for a number), no column is known. Where it can (a number with too many digits,
  * a text that is no time, a number for a text), the others are. So columns of a payload that is held are what they were when Spark
  * read it (tests/core/test_strict_json.py compares both).
  *
  * What a payload has beside its declaration is noted on the way, as a line for each path (`Found`): nothing is done for one that has nothing.
  *
  * It keeps nothing between payloads, so threads may share it.
  *
  * @param notes Whether that is done.
  * @param leaves The paths of which nothing is noted, nor of what is below them.
  * @param drops Whether a value of another type is NULL, and the payload a row all the same.
  */
final class JsonReader(declared: StructType, zone: String, notes: Boolean, leaves: Seq[String], drops: Boolean) extends Serializable {
  import JsonReader._

  @transient private lazy val options = new JSONOptions(Strict, zone)
  @transient private lazy val inArray: JsonFactory = options.buildJsonFactory()

  /** Within the array that Spark is given a payload is a level deeper; the limit is that of a payload in it. */
  @transient private lazy val alone: JsonFactory = {
    val limits = inArray.streamReadConstraints
    new JsonFactoryBuilder(inArray)
      .streamReadConstraints(limits.rebuild().maxNestingDepth(limits.getMaxNestingDepth - 1).build())
      // Names are foreign text: they have no place among the JVM's own, and many of one hash are no error.
      .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
      .disable(JsonFactory.Feature.FAIL_ON_SYMBOL_HASH_OVERFLOW)
      .build()
  }
  @transient private lazy val spark = new JacksonParser(new StructType(), options, allowArrayAsStructs = false)
  @transient private lazy val values = new Values(DateTimeUtils.getZoneId(zone), inArray, drops, spark.makeConverter(_))
  @transient private lazy val dropping = {
    val all = new Values(DateTimeUtils.getZoneId(zone), inArray, true, spark.makeConverter(_))
    new all.Fields(declared, "")
  }
  @transient private lazy val left = leaves.map(Found.written).toArray
  @transient private lazy val fields = new values.Fields(declared, "")

  def read(payload: Array[Byte]): InternalRow =
    if (payload == null || payload.length < 2) malformed(null)
    else if (!isText(payload)) malformed(first(payload))
    else if (isOtherEncoding(payload)) malformed(null)
    else whole(payload, payload.length <= Short)

  private def whole(payload: Array[Byte], asBytes: Boolean): InternalRow = {
    val parser = opened(payload, asBytes)
    var row: GenericInternalRow = null
    var isClosed = false
    val found = new Found(notes, left)
    try {
      if (parser.nextToken() ne START_OBJECT) return malformed(null)
      try row = fields.row(parser, found, Own)
      catch { case Unreadable => close(parser) }
      isClosed = true
      if (parser.nextToken() != null) malformed(first(payload, row))
      else if (row == null) noted(wrongType(null), further(payload, found))
      else if (found.isLost) noted(wrongType(row), found)
      else if (found.isPlain) row
      else noted(row, found)
    } catch {
      case Doubtful => if (isWhole(payload)) noted(wrongType(null), further(payload, found)) else malformed(null)
      case error: IOException if !error.isInstanceOf[StreamConstraintsException] =>
        malformed(if (isClosed) first(payload, row) else null)
      case NonFatal(_) => if (asBytes) whole(payload, asBytes = false) else malformed(null)
    } finally parser.close()
  }

  private def opened(payload: Array[Byte], asBytes: Boolean): JsonParser =
    if (asBytes) alone.createParser(payload) else alone.createParser(new String(payload, UTF_8))

  private def isWhole(payload: Array[Byte]): Boolean = {
    val parser = opened(payload, asBytes = false)
    try {
      parser.nextToken()
      close(parser)
      parser.nextToken() == null
    } catch { case NonFatal(_) => false }
    finally parser.close()
  }

  /** Return what is noted of all of a payload of which reading ended at a value of another type; it is held, which is rare. */
  private def further(payload: Array[Byte], found: Found): Found =
    if (!notes) found
    else {
      val parser = opened(payload, asBytes = false)
      val all = new Found(notes, left)
      try {
        parser.nextToken()
        dropping.row(parser, all, Own)
        all
      } catch { case NonFatal(_) | Unreadable | Doubtful => found }
      finally parser.close()
    }

  private def close(parser: JsonParser): Unit = while (!parser.getParsingContext.inRoot) parser.nextToken()

  private def first(payload: Array[Byte], row: GenericInternalRow): GenericInternalRow =
    if (row == null) null else first(payload)

  /** Return what Spark reads as the first of the array `[payload, {…}]`: the columns of a payload that goes on behind its object. */
  private def first(payload: Array[Byte]): GenericInternalRow = {
    val parser = inArray.createParser("[" + new String(payload, UTF_8) + "\n,{}]")
    try {
      parser.nextToken()
      var row: GenericInternalRow = null
      var count = 0
      var token = parser.nextToken()
      while (token ne END_ARRAY) {
        val each = token match {
          case VALUE_NULL => null
          case START_OBJECT => fields.row(parser, new Found(false, left), Own)
          case _ => throw Unreadable
        }
        if (count == 0) row = each
        count += 1
        token = parser.nextToken()
      }
      row
    } catch { case NonFatal(_) => null }
    finally parser.close()
  }

  private def malformed(row: GenericInternalRow): GenericInternalRow = held(row, Malformed)
  private def wrongType(row: GenericInternalRow): GenericInternalRow = held(row, WrongType)

  private def held(row: GenericInternalRow, problem: UTF8String): GenericInternalRow = {
    val made = if (row == null) new GenericInternalRow(declared.length + Own) else row
    made.update(declared.length, problem)
    made
  }

  private def noted(row: GenericInternalRow, found: Found): InternalRow = {
    row.update(declared.length + 1, found.lines)
    row
  }
}

object JsonReader {
  /** The columns behind the declared ones: why it is no row, and what the declaration does not say. */
  private val Own = 2

  private val Strict = Map("allowSingleQuotes" -> "false", "allowNonNumericNumbers" -> "false")
  private val Malformed = UTF8String.fromString("malformed")
  private val WrongType = UTF8String.fromString("wrong_type")

  /** A payload of more bytes is read as letters, and so is one beyond a limit: of names Jackson counts bytes where it reads these, and
    * of `0.123` the zero as well.
    */
  private val Short = 50000

  private val Highest = 0x8080808080808080L
  private val Ones = 0x0101010101010101L
  private val Backslashes = 0x5c5c5c5c5c5c5c5cL

  /** Whether a payload is UTF-8, escapes included. Eight bytes are looked at once, because most payloads are plain. */
  private def isText(payload: Array[Byte]): Boolean = {
    var high, slashes = 0L
    var at = 0
    while (at + 8 <= payload.length) {
      val eight = Platform.getLong(payload, Platform.BYTE_ARRAY_OFFSET + at)
      val marked = eight ^ Backslashes
      high |= eight
      slashes |= (marked - Ones) & ~marked
      at += 8
    }
    while (at < payload.length) {
      high |= (payload(at) & 0x80L)
      if (payload(at) == '\\') slashes = Highest
      at += 1
    }
    ((high & Highest) == 0 || UTF8String.fromBytes(payload).isValid) && ((slashes & Highest) == 0 || !hasHalfAPair(payload))
  }

  /** Whether an escaped surrogate is there without its other half. It follows an even number of backslashes, or it is no escape. */
  private def hasHalfAPair(payload: Array[Byte]): Boolean = {
    var at = 0
    while (at < payload.length) {
      if (payload(at) != '\\') at += 1
      else if (isLow(payload, at)) return true
      else if (!isHigh(payload, at)) at += 2
      else if (isLow(payload, at + 6)) at += 12
      else return true
    }
    false
  }

  private def isHigh(payload: Array[Byte], at: Int): Boolean = isEscape(payload, at, "89abAB")
  private def isLow(payload: Array[Byte], at: Int): Boolean = isEscape(payload, at, "cdefCDEF")

  private def isEscape(payload: Array[Byte], at: Int, third: String): Boolean =
    at >= 0 && at + 6 <= payload.length && payload(at) == '\\' && payload(at + 1) == 'u' &&
      (payload(at + 2) | 0x20) == 'd' && third.indexOf(payload(at + 3).toInt) >= 0 &&
      Character.digit(payload(at + 4).toInt, 16) >= 0 && Character.digit(payload(at + 5).toInt, 16) >= 0

  /** Jackson would read UTF-16 and skip a mark; neither is a payload. */
  private def isOtherEncoding(payload: Array[Byte]): Boolean =
    payload.iterator.take(4).contains(0.toByte) || (payload(0) == 0xef.toByte && payload(1) == 0xbb.toByte)
}

/** A value that Spark reads as nothing; the parser is at it. */
private object Unreadable extends RuntimeException with NoStackTrace

/** The same, from a reader of Spark's: where the parser is, and whether the rest is JSON, is not known. */
private object Doubtful extends RuntimeException with NoStackTrace

/** Whether a value was read that is not of its type, and what a payload has beside its declaration.
  *
  * A line is `+KIND PATH` for a field that is not declared, `!KIND DECLARED PATH` for a value of another type, and at the end `~NUMBER` where
  * there were more than a line is kept of. KIND is what JSON has there. Names are foreign text: so they are bounded in number and in
  * letters, and have no sign that would break a line.
  */
private final class Found(notes: Boolean, leaves: Array[String]) {
  var isLost = false
  private var kept: java.util.LinkedHashSet[String] = null
  private var more = 0
  private var hasNew = false

  def isPlain: Boolean = kept == null

  def lines: UTF8String =
    if (kept == null) null
    else {
      if (more > 0) kept.add("~" + more)
      UTF8String.fromString(String.join("\n", kept))
    }

  /** Note a field that is not declared; one without a value says nothing yet. */
  def undeclared(token: JsonToken, within: String, name: String): Unit =
    if (notes && (token ne VALUE_NULL)) {
      val path = Found.below(within, Found.plain(name))
      if (leaves.length == 0 || !isLeft(path)) {
        // The first is kept whatever the number: by it a record is held that has any.
        val isFirst = !hasNew
        hasNew = true
        keep("+" + Found.kind(token) + " " + path, isFirst)
      }
    }

  /** Whether a path is one of those that are left, or below one: in its record, its list or its map. */
  private def isLeft(path: String): Boolean = {
    var at = 0
    while (at < leaves.length && !isWithin(path, leaves(at))) at += 1
    at < leaves.length
  }

  private def isWithin(path: String, leaf: String): Boolean =
    path.startsWith(leaf) && (path.length == leaf.length || ".[{".indexOf(path.charAt(leaf.length).toInt) >= 0)

  def other(token: JsonToken, declared: String, path: String): Unit =
    if (notes) keep("!" + Found.kind(token) + " " + declared + " " + path, always = false)

  private def keep(line: String, always: Boolean): Unit = {
    if (kept == null) kept = new java.util.LinkedHashSet[String]
    if (kept.size < Found.Most || always) kept.add(line)
    else if (!kept.contains(line)) more += 1
  }
}

private object Found {
  /** So many lines are kept of a payload. */
  private val Most = 32

  /** So many letters of a name. */
  private val Longest = 100

  def kind(token: JsonToken): String = token match {
    case VALUE_STRING => "text"
    case VALUE_NUMBER_INT => "integer"
    case VALUE_NUMBER_FLOAT => "number"
    case VALUE_TRUE | VALUE_FALSE => "boolean"
    case START_ARRAY => "list"
    case START_OBJECT => "object"
    case _ => "nothing"
  }

  def below(within: String, name: String): String = if (within.isEmpty) name else within + "." + name

  private val Step = """`(?:[^`]|``)*`|[^.\[\]{}`]+|\[\]|\{\}""".r

  /** Return a path as it is written here, of one that a person has written: there `$schema` may be without backticks. */
  def written(path: String): String =
    Step.findAllIn(path).foldLeft("") { (made, step) =>
      if (step == "[]" || step == "{}") made + step
      else below(made, plain(if (step.charAt(0) == '`') step.substring(1, step.length - 1).replace("``", "`") else step))
    }

  /** Return a name as it is written in a path: by itself, or between backticks where it has a sign of a path. */
  def plain(name: String): String = {
    var at = 0
    while (at < name.length && isWord(name.charAt(at))) at += 1
    if (at == name.length && at > 0 && at <= Longest) name else quoted(name)
  }

  private def isWord(sign: Char): Boolean =
    (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') || (sign >= '0' && sign <= '9') || sign == '_' || sign == '-'

  private def quoted(name: String): String = {
    val made = new java.lang.StringBuilder("`")
    var at, letters = 0
    while (at < name.length && letters < Longest) {
      val sign = name.codePointAt(at)
      if (sign == '`') made.append("``") else made.appendCodePoint(if (isOdd(sign)) 0xfffd else sign)
      at += Character.charCount(sign)
      letters += 1
    }
    if (at < name.length) made.append('…')
    made.append('`').toString
  }

  /** Whether a sign would break a line, move the cursor of a terminal or turn what follows it around, or is none. */
  private def isOdd(sign: Int): Boolean = Character.getType(sign).toByte match {
    case Character.CONTROL | Character.FORMAT | Character.LINE_SEPARATOR | Character.PARAGRAPH_SEPARATOR | Character.SURROGATE |
        Character.PRIVATE_USE | Character.UNASSIGNED => true
    case _ => false
  }
}

private final class Values(zone: ZoneId, raw: JsonFactory, drops: Boolean, ofSpark: DataType => JsonParser => AnyRef) {
  private val isUtc = zone.normalized == java.time.ZoneOffset.UTC

  /** Return how the values of a type are read.
    *
    * @param path Where they are in the payload; within a list `[]` follows its name, within a map `{}`.
    */
  def of(kind: DataType, path: String): Value = kind match {
    case _: CharType | _: VarcharType => new OfSpark(kind, path)
    case _: StringType => new Text(path)
    case DoubleType => new Number(path)
    case LongType => new Integral(path)
    case each: DecimalType => new Exact(each, path)
    case TimestampType => new Moment(path)
    case each: StructType => new Fields(each, path)
    case ArrayType(each, _) => new Many(of(each, path + "[]"), path)
    case MapType(_, each, _) => new Named(of(each, path + "{}"), path)
    case _ => new OfSpark(kind, path)
  }

  abstract class Value(declared: String, path: String) {
    /** Read the value at which the parser is; it ends at the value's last token. */
    def read(parser: JsonParser, token: JsonToken, found: Found): Any

    /** Note a value of another type, which has no reading: none is known of the payload either, unless such values are NULL. */
    protected def other(parser: JsonParser, token: JsonToken, found: Found): Any = {
      found.other(token, declared, path)
      if (!drops) throw Unreadable
      parser.skipChildren()
      null
    }

    /** Note one that has: the payload's other columns are known. */
    protected def lost(token: JsonToken, found: Found): Unit = {
      found.other(token, declared, path)
      if (!drops) found.isLost = true
    }
  }

  final class Text(path: String) extends Value("string", path) {
    override def read(parser: JsonParser, token: JsonToken, found: Found): Any =
      if (token eq VALUE_STRING) UTF8String.fromString(parser.getText)
      else if (token eq VALUE_NULL) null
      else {
        lost(token, found)
        if (drops) {
          parser.skipChildren()
          null
        } else written(parser)
      }

    private def written(parser: JsonParser): UTF8String = {
      val bytes = new ByteArrayOutputStream()
      val generator = raw.createGenerator(bytes, JsonEncoding.UTF8)
      try generator.copyCurrentStructure(parser)
      finally generator.close()
      UTF8String.fromBytes(bytes.toByteArray)
    }
  }

  final class Number(path: String) extends Value("double", path) {
    override def read(parser: JsonParser, token: JsonToken, found: Found): Any =
      if (token.isNumeric) parser.getDoubleValue
      else if (token eq VALUE_NULL) null
      else other(parser, token, found)
  }

  final class Integral(path: String) extends Value("bigint", path) {
    override def read(parser: JsonParser, token: JsonToken, found: Found): Any =
      if (token eq VALUE_NUMBER_INT) {
        try parser.getLongValue
        catch { case _: InputCoercionException => other(parser, token, found) }
      } else if (token eq VALUE_NULL) null
      else other(parser, token, found)
  }

  /** A decimal: read as double, and the same number, so that any of at most 15 digits is kept and none is rounded. */
  final class Exact(kind: DecimalType, path: String) extends Value(kind.catalogString, path) {
    private val limit = math.pow(10, kind.precision.toDouble).toLong

    override def read(parser: JsonParser, token: JsonToken, found: Found): Any =
      if (token.isNumeric) {
        val plain = ofDigits(parser)
        if (plain != null) plain
        else {
          val made = ofDouble(parser.getDoubleValue)
          if (made == null) lost(token, found)
          made
        }
      } else if (token eq VALUE_NULL) null
      else other(parser, token, found)

    /** Return a number of at most 15 digits without an exponent, as its digits are; null for others. */
    private def ofDigits(parser: JsonParser): Decimal = {
      val text = parser.getTextCharacters
      val begin = parser.getTextOffset
      val end = begin + parser.getTextLength
      var at = begin
      val isNegative = text(at) == '-'
      if (isNegative) at += 1
      if (end - at > 16) return null
      var number = 0L
      var behind = -1
      while (at < end) {
        val digit = text(at) - '0'
        if (digit >= 0 && digit <= 9) {
          number = number * 10 + digit
          if (behind >= 0) behind += 1
        } else if (text(at) == '.') behind = 0
        else return null
        at += 1
      }
      var more = kind.scale - math.max(behind, 0)
      while (more < 0 && number % 10 == 0) { number /= 10; more += 1 }
      if (more < 0) return null
      while (more > 0 && number < limit) { number *= 10; more -= 1 }
      if (number >= limit) return null
      Decimal.createUnsafe(if (isNegative) -number else number, kind.precision, kind.scale)
    }

    private def ofDouble(number: Double): Decimal =
      if (number.isNaN || number.isInfinite) null
      else {
        val made = Decimal(number)
        if (made.changePrecision(kind.precision, kind.scale) && made.toDouble == number) made else null
      }
  }

  /** A text with a date and a time; the cast would fill in an absent part with today's. */
  final class Moment(path: String) extends Value("timestamp", path) {
    private val Dash = UTF8String.fromString("-")
    private val Colon = UTF8String.fromString(":")
    private val Between = Set(UTF8String.fromString("T"), UTF8String.fromString(" "))

    override def read(parser: JsonParser, token: JsonToken, found: Found): Any =
      if (token eq VALUE_STRING) {
        val plain = ofDigits(parser)
        if (plain != Unknown) plain
        else ofText(UTF8String.fromString(parser.getText)).getOrElse { lost(token, found); null }
      } else if (token eq VALUE_NULL) null
      else {
        parser.skipChildren()
        lost(token, found)
        null
      }

    private def ofText(text: UTF8String): Option[Any] = {
      def at(place: Int) = text.substringSQL(place, 1)
      if (at(5) == Dash && at(8) == Dash && Between(at(11)) && at(14) == Colon) DateTimeUtils.stringToTimestamp(text, zone)
      else None
    }

    private val Unknown = scala.Long.MinValue

    /** Is less than any number of digits beside it can make up for. */
    private val NoDigits = -100000

    /** Return the microseconds of `2026-11-20T08:15:30.123Z`, its usual form; what is unknown for others. */
    private def ofDigits(parser: JsonParser): Long = {
      val text = parser.getTextCharacters
      val begin = parser.getTextOffset
      val length = parser.getTextLength
      if (length < 19 || length > 30) return Unknown
      def two(at: Int): Int = {
        val tens = text(begin + at) - '0'
        val ones = text(begin + at + 1) - '0'
        if (tens < 0 || tens > 9 || ones < 0 || ones > 9) NoDigits else tens * 10 + ones
      }
      def is(at: Int, sign: Char) = text(begin + at) == sign
      val year = two(0) * 100 + two(2)
      val month = two(5)
      val day = two(8)
      val hour = two(11)
      val minute = two(14)
      val second = two(17)
      val isPlain = is(4, '-') && is(7, '-') && (is(10, 'T') || is(10, ' ')) && is(13, ':') && is(16, ':') &&
        year > 0 && month >= 1 && month <= 12 && day >= 1 && day <= 28 && hour >= 0 && hour <= 23 && minute >= 0 &&
        minute <= 59 && second >= 0 && second <= 59
      if (!isPlain) return Unknown
      var at = 19
      var micros = 0
      if (at < length && is(at, '.')) {
        at += 1
        var unit = 100000
        val first = at
        while (at < length && text(begin + at) >= '0' && text(begin + at) <= '9') {
          micros += (text(begin + at) - '0') * unit
          unit /= 10
          at += 1
        }
        if (at == first || at - first > 9) return Unknown
      }
      val isKnownZone = if (at == length) isUtc else at == length - 1 && is(at, 'Z')
      if (!isKnownZone) return Unknown
      val seconds = java.time.LocalDate.of(year, month, day).toEpochDay * 86400 + hour * 3600 + minute * 60 + second
      seconds * 1000000 + micros
    }
  }

  /** Any other type, as Spark reads it. */
  final class OfSpark(kind: DataType, path: String) extends Value(kind.catalogString, path) {
    private val converter = ofSpark(kind)

    override def read(parser: JsonParser, token: JsonToken, found: Found): Any = {
      // Read as bytes of base64, a text might have line ends and other signs that no text of JSON has.
      if (token eq VALUE_STRING) parser.getText
      if (drops && !token.isScalarValue && kind != VariantType) return other(parser, token, found)
      try converter(parser)
      catch {
        case NonFatal(_) =>
          found.other(token, kind.catalogString, path)
          // A scalar is one token, so the parser is where it was.
          if (drops && token.isScalarValue) null else throw Doubtful
      }
    }
  }

  final class Many(each: Value, path: String) extends Value("array", path) {
    override def read(parser: JsonParser, token: JsonToken, found: Found): Any =
      if (token eq START_ARRAY) {
        val all = ArrayBuffer.empty[Any]
        var next = parser.nextToken()
        while (next ne END_ARRAY) {
          all += each.read(parser, next, found)
          next = parser.nextToken()
        }
        new GenericArrayData(all.toArray)
      } else if (token eq VALUE_NULL) null
      else other(parser, token, found)
  }

  /** A map, with all its entries: a name that occurs twice is two. */
  final class Named(each: Value, path: String) extends Value("map", path) {
    override def read(parser: JsonParser, token: JsonToken, found: Found): Any =
      if (token eq START_OBJECT) {
        val names, all = ArrayBuffer.empty[Any]
        var name = parser.nextFieldName()
        while (name != null) {
          names += UTF8String.fromString(name)
          all += each.read(parser, parser.nextToken(), found)
          name = parser.nextFieldName()
        }
        ArrayBasedMapData(names.toArray, all.toArray)
      } else if (token eq VALUE_NULL) null
      else other(parser, token, found)
  }

  /** A record. Of a field that occurs twice the last counts, and so does whether it is of its type. */
  final class Fields(declared: StructType, path: String) extends Value("struct", path) {
    private val names = declared.fieldNames
    private val places = new java.util.HashMap[String, Int]()
    names.zipWithIndex.foreach { case (name, at) => places.put(name, at) }
    private val all = declared.fields.map(each => of(each.dataType, Found.below(path, Found.plain(each.name))))

    override def read(parser: JsonParser, token: JsonToken, found: Found): Any =
      if (token eq START_OBJECT) row(parser, found, 0)
      else if (token eq VALUE_NULL) null
      else other(parser, token, found)

    /** Read the record, with places for more columns behind its own. */
    def row(parser: JsonParser, found: Found, more: Int): GenericInternalRow = {
      val made = new Array[Any](names.length + more)
      val wasLost = found.isLost
      var lost: Array[Boolean] = null
      found.isLost = false
      var expected = 0
      var name = parser.nextFieldName()
      while (name != null) {
        val token = parser.nextToken()
        val at = if (expected < names.length && names(expected) == name) expected else places.getOrDefault(name, -1)
        if (at < 0) {
          found.undeclared(token, path, name)
          parser.skipChildren()
        }
        else {
          made(at) = all(at).read(parser, token, found)
          if (found.isLost) {
            if (lost == null) lost = new Array[Boolean](names.length)
            lost(at) = true
            found.isLost = false
          } else if (lost != null) lost(at) = false
          expected = at + 1
        }
        name = parser.nextFieldName()
      }
      found.isLost = wasLost || (lost != null && lost.contains(true))
      new GenericInternalRow(made)
    }
  }
}
