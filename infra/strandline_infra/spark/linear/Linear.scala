package strandline

import com.google.re2j.{Matcher, Pattern, PatternSyntaxException}
import org.apache.spark.{TaskContext, TaskKilledException}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.unsafe.types.UTF8String
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

/** A regular expression that is not run; the message is a sentence. */
final class RefusedPattern(message: String) extends IllegalArgumentException(message)

/** Regular expressions of RE2's: what they cost is in proportion to the text, and a text cannot overflow a stack.
  *
  * Java's own search by trying: `(a?){28}` with twenty-eight letters took 42 s, and a loop of a group recurses once for each
  * repetition, so that a text of 8,000 characters ended the task, and Spark the JVM with it.
  *
  * re2j's parser and compiler recurse over the *pattern*, and it writes repetitions out, so a pattern has bounds here; those of
  * quality/strandline_quality/linear.py are the same.
  */
object Linear {
  val Longest = 4096
  val Deepest = 50
  /** Single characters that a pattern may have when its repetitions are written out; a search keeps up to as many places. */
  val Largest = 10000

  /** Characters of a text whose length multiplies what a function costs: a second of one core, with another like it. */
  val Shortest = 10000

  /** A text itself, unless it is longer than that. */
  def short(text: UTF8String): UTF8String = {
    val length = text.numChars
    if (length > Shortest) {
      throw new RefusedPattern(
        s"a text of $length characters is longer than $Shortest: both texts of levenshtein, and one that is searched for in another, " +
          "multiply what a row costs, and hear no time limit meanwhile; take a part of it, such as left(text, 1000)")
    }
    text
  }

  /** Characters of a text from which on a search asks whether its task was ended. */
  private val Long = 1 << 16

  /** Return why a pattern is refused, or null. */
  def refusal(pattern: String): String =
    try { compiled(pattern); null }
    catch { case refused: RefusedPattern => refused.getMessage }

  def compiled(pattern: String): Pattern = {
    bounded(pattern)
    try Pattern.compile(pattern)
    catch {
      case error: PatternSyntaxException =>
        val what = error.getMessage.stripPrefix("error parsing regexp: ")
        throw new RefusedPattern(
          s"the regular expression ${shown(pattern)} is none of RE2's: $what; there is no look-around, no reference to a " +
            "group and no possessive quantifier in it (infra/docs/linear.md has what to write instead)")
    }
  }

  private def shown(pattern: String) = if (pattern.length > 60) s"${pattern.take(60)}…" else pattern

  private def refuse(pattern: String, why: String) =
    throw new RefusedPattern(s"the regular expression ${shown(pattern)} $why")

  private val Count = """\{(\d{1,5})(,(\d{0,5}))?\}""".r

  /** Refuse what re2j would take a stack or a heap for, before it reads it. Reads each character once, and errs to the larger. */
  private def bounded(pattern: String): Unit = {
    if (pattern.length > Longest) refuse(pattern, s"has ${pattern.length} characters, more than $Longest")
    val outer = mutable.Stack[Double]()
    var size, last = 0.0
    var at = 0
    var inClass = false
    while (at < pattern.length) {
      pattern.charAt(at) match {
        case '\\' => at += 1; if (!inClass) { size += 1; last = 1 }
        case ']' if inClass => inClass = false
        case _ if inClass =>
        case '[' =>
          inClass = true; size += 1; last = 1
          if (pattern.startsWith("^", at + 1)) at += 1
          if (pattern.startsWith("]", at + 1)) at += 1
        case '(' =>
          outer.push(size); size = 0
          if (outer.size > Deepest) refuse(pattern, s"has groups that are nested more than $Deepest deep")
        case ')' if outer.nonEmpty => last = size + 1; size = outer.pop() + last
        case '{' =>
          Count.findPrefixMatchOf(pattern.subSequence(at, pattern.length)).foreach { found =>
            val most = Option(found.group(3)).filter(_.nonEmpty).getOrElse(found.group(1)).toDouble
            size += last * (most max 1) - last
            last *= most max 1
            at += found.end - 1
          }
        case _ => size += 1; last = 1
      }
      if (size > Largest) refuse(pattern, s"repeats too often: written out it has more than $Largest characters")
      at += 1
    }
  }

  private val recent = ThreadLocal.withInitial[mutable.LinkedHashMap[UTF8String, Searcher]](() => mutable.LinkedHashMap())
  private val Remembered = 32

  /** The searcher of a pattern that is a column, so another in each row. */
  private def of(pattern: UTF8String): Searcher = {
    heard(TaskContext.get())
    val known = recent.get
    known.getOrElse(pattern, {
      val made = Searcher(pattern.toString)
      if (known.size >= Remembered) known -= known.head._1
      known += pattern.clone() -> made
      made
    })
  }

  def found(text: UTF8String, pattern: UTF8String): Boolean = of(pattern).found(text)
  def extract(text: UTF8String, pattern: UTF8String, group: Int): UTF8String = of(pattern).extract(text, group)
  def extractAll(text: UTF8String, pattern: UTF8String, group: Int): ArrayData = of(pattern).extractAll(text, group)
  def replace(text: UTF8String, pattern: UTF8String, by: UTF8String, position: Int): UTF8String =
    of(pattern).replace(text, by, position)
  def split(text: UTF8String, pattern: UTF8String, limit: Int): ArrayData = of(pattern).split(text, limit)
  def position(text: UTF8String, pattern: UTF8String): Int = of(pattern).position(text)

  /** SQL's LIKE. */
  def like(text: UTF8String, pattern: UTF8String, escape: Int): Boolean =
    of(UTF8String.fromString(ofLike(pattern.toString, escape.toChar))).found(text)

  def ofLike(pattern: String, escape: Char): String = {
    val out = new StringBuilder("(?s)\\A")
    var at = 0
    def plain(point: Int): Unit = out.append(Pattern.quote(new String(Character.toChars(point))))
    while (at < pattern.length) {
      val point = pattern.codePointAt(at)
      at += Character.charCount(point)
      if (point == escape && at < pattern.length) {
        plain(pattern.codePointAt(at))
        at += Character.charCount(pattern.codePointAt(at))
      } else if (point == '%') out.append(".*")
      else if (point == '_') out.append('.')
      else plain(point)
    }
    out.append("\\z").toString
  }

  /** A text as re2j reads it. While it reads a long one, it hears that its task was ended; Java's own hears nothing. */
  private[strandline] def readable(text: UTF8String): CharSequence = {
    val read = text.toString
    if (read.length < Long) read else new Heard(read, TaskContext.get())
  }

  /** End where the task was ended. Asked between two matches: of those a text has as many as letters, and each reads on. */
  private[strandline] def heard(): Unit = heard(TaskContext.get())

  private def heard(task: TaskContext): Unit =
    if (task != null && task.isInterrupted()) throw new TaskKilledException("the computation was ended")
    else if (Thread.currentThread.isInterrupted) throw new InterruptedException("the computation was ended")

  private final class Heard(text: String, task: TaskContext) extends CharSequence {
    private var reads = 0
    override def length: Int = text.length
    override def charAt(at: Int): Char = {
      reads += 1
      if ((reads & 0xfff) == 0) {
        heard(task)
      }
      text.charAt(at)
    }
    override def subSequence(from: Int, until: Int): CharSequence = text.substring(from, until)
    override def toString: String = text
  }
}

/** One regular expression, as it goes to executors. */
final case class Searcher(pattern: String) {
  @transient private lazy val compiled: Pattern = Linear.compiled(pattern)

  private def matcher(text: UTF8String): Matcher = compiled.matcher(Linear.readable(text))

  private def groupOf(group: Int): Int =
    if (group < 0 || group > compiled.groupCount) {
      throw new RefusedPattern(s"the regular expression $pattern has ${compiled.groupCount} groups, and group $group is asked for")
    } else group

  private def textOf(found: Matcher, group: Int): UTF8String = UTF8String.fromString(Option(found.group(group)).getOrElse(""))

  def found(text: UTF8String): Boolean = matcher(text).find()

  def extract(text: UTF8String, group: Int): UTF8String = {
    val search = matcher(text)
    if (search.find()) textOf(search, groupOf(group)) else UTF8String.EMPTY_UTF8
  }

  def extractAll(text: UTF8String, group: Int): ArrayData = {
    val search = matcher(text)
    val all = ArrayBuffer[Any]()
    while (search.find()) {
      Linear.heard()
      all += textOf(search, groupOf(group))
    }
    new GenericArrayData(all.toArray[Any])
  }

  /** As Spark's `regexp_replace`: from a position on, which begins with 1. */
  def replace(text: UTF8String, by: UTF8String, position: Int): UTF8String = {
    val whole = text.toString
    val from = position - 1
    if (from != 0 && from >= whole.length) text
    else {
      val rest = UTF8String.fromString(whole.substring(from))
      val out = new StringBuilder(whole.substring(0, from))
      val search = matcher(rest)
      val target = new java.lang.StringBuilder
      while (search.find()) {
        Linear.heard()
        search.appendReplacement(target, by.toString)
      }
      search.appendTail(target)
      UTF8String.fromString(out.append(target).toString)
    }
  }

  def split(text: UTF8String, limit: Int): ArrayData = {
    val read = text.toString
    val most = if (limit > 0) limit else Int.MaxValue
    val parts = ArrayBuffer[Any]()
    var from = 0
    if (pattern.isEmpty) {
      while (from < read.length && parts.length < most - 1) {
        val until = read.offsetByCodePoints(from, 1)
        parts += UTF8String.fromString(read.substring(from, until))
        from = until
      }
      if (from < read.length || parts.isEmpty) parts += UTF8String.fromString(read.substring(from))
    } else {
      val search = matcher(text)
      while (parts.length < most - 1 && search.find()) {
        Linear.heard()
        // As Java: an empty match at the begin splits nothing off.
        if (search.end > 0) {
          parts += UTF8String.fromString(read.substring(from, search.start))
          from = search.end
        }
      }
      parts += UTF8String.fromString(read.substring(from))
    }
    new GenericArrayData(parts.toArray[Any])
  }

  def position(text: UTF8String): Int = {
    val search = matcher(text)
    if (search.find()) search.start + 1 else 0
  }

  override def toString: String = pattern
}
