package strandline

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.unsafe.types.UTF8String

/** Finds where a plan lets Java's engine search a text that is none of its own constants. */
object Searches {
  /** The pattern of a search whose pattern is another one in each row. */
  val Computed = "computed"

  private val Quantifiers = "*+?{"

  /** The functions of a plan whose search a text can make expensive, each with its pattern behind a space. */
  def of(plan: LogicalPlan): JList[String] =
    plan
      .collectWithSubqueries { case node => node.expressions }
      .flatten
      .flatMap(_.collect(Function.unlift(search)))
      .map { case (name, pattern) => s"$name $pattern" }
      .distinct
      .sorted
      .asJava

  private def search(each: Expression): Option[(String, String)] = each match {
    case RLike(text, pattern) => found("rlike", text, pattern)
    case RegExpExtract(text, pattern, _) => found("regexp_extract", text, pattern)
    case RegExpExtractAll(text, pattern, _) => found("regexp_extract_all", text, pattern)
    case RegExpReplace(text, pattern, _, _) => found("regexp_replace", text, pattern)
    case RegExpInStr(text, pattern, _) => found("regexp_instr", text, pattern)
    case RegExpCount(text, pattern) => found("regexp_count", text, pattern)
    case RegExpSubStr(text, pattern) => found("regexp_substr", text, pattern)
    case StringSplit(text, pattern, _) => found("split", text, pattern)
    // A pattern that is written out is a chain of texts; a computed one may have a hundred places to try.
    case Like(text, pattern, _) if !pattern.foldable => found("like", text, pattern)
    case ILike(text, pattern, _) if !pattern.foldable => found("ilike", text, pattern)
    case StringToMap(text, pair, key) => found("str_to_map", text, pair).orElse(found("str_to_map", text, key))
    case ParseUrl(Seq(url, _, key), _) if !key.foldable => found("parse_url", url, key)
    case _ => None
  }

  private def found(name: String, text: Expression, pattern: Expression): Option[(String, String)] =
    Option.when(text.resolved && !text.foldable && costs(pattern))(
      name -> LinearFunctions.constant(pattern).getOrElse(Computed))

  /** Whether a search may cost more than the text is long: it repeats, or has choices in a group. */
  def costs(pattern: Expression): Boolean = LinearFunctions.known(pattern) match {
    case None => true
    case Some(text: UTF8String) => mayTry(text.toString)
    case _ => false
  }

  private[strandline] def mayTry(pattern: String): Boolean = {
    var at, groups, choices = 0
    var inClass, repeats = false
    while (at < pattern.length) {
      pattern.charAt(at) match {
        case '\\' => at += 1
        case ']' if inClass => inClass = false
        case _ if inClass =>
        case '[' => inClass = true
        case '(' =>
          groups += 1
          if (pattern.startsWith("?", at + 1)) at += 1
        case '|' => choices += 1
        case sign if Quantifiers.indexOf(sign.toInt) >= 0 => repeats = true
        case _ =>
      }
      at += 1
    }
    repeats || (groups > 0 && choices > 0)
  }
}
