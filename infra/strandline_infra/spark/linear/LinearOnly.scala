package strandline

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** Lets a session run RE2's expressions alone: Spark's functions become those of `LinearFunctions`, LIKE as well.
  *
  * In the analyzed plan, because the optimizer already computes what is constant, and it hears no interrupt.
  */
class LinearOnly extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectPostHocResolutionRule(_ => LinearRule)
}

object LinearRule extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressionsWithSubqueries(replaced)

  private val replaced: PartialFunction[Expression, Expression] = {
    case each if each.resolved && isJavas(each) => linear(each)
    case each if each.resolved && builds(each) => refuse(each)
    case each if each.resolved && multiplied(each).exists(at => !isShort(each.children(at))) => bounded(each)
    case loop: LambdaFunction if loop.resolved && !loop.function.isInstanceOf[Heard] => loop.copy(function = Heard(loop.function))
  }

  private def isJavas(each: Expression): Boolean = each match {
    case _: RLike | _: RegExpExtract | _: RegExpExtractAll | _: RegExpReplace | _: RegExpInStr | _: StringSplit => true
    case like: Like => !isPlain(like.right, like.escapeChar)
    case LikeAll(_, patterns) => areHard(patterns)
    case NotLikeAll(_, patterns) => areHard(patterns)
    case LikeAny(_, patterns) => areHard(patterns)
    case NotLikeAny(_, patterns) => areHard(patterns)
    // What inherits the rules of its replacement has it as its child, where it is met.
    case other: RuntimeReplaceable => !other.isInstanceOf[InheritAnalysisRules] && other.replacement.exists(isJavas)
    case _ => false
  }

  private def linear(each: Expression): Expression = each match {
    case RLike(text, pattern) => LinearFunctions.matches(text, pattern)
    case RegExpExtract(text, pattern, group) => LinearFunctions.extract(text, pattern, group)
    case RegExpExtractAll(text, pattern, group) => LinearFunctions.extractAll(text, pattern, group)
    case RegExpReplace(text, pattern, by, position) => LinearFunctions.replace(text, pattern, by, position)
    case RegExpInStr(text, pattern, _) => LinearFunctions.position(text, pattern)
    case StringSplit(text, pattern, limit) => LinearFunctions.split(text, pattern, limit)
    case Like(text, pattern, escape) => LinearFunctions.like(text, pattern, escape)
    case LikeAll(text, patterns) => likes(text, patterns).reduce[Expression](And(_, _))
    case NotLikeAll(text, patterns) => likes(text, patterns).map(Not(_)).reduce[Expression](And(_, _))
    case LikeAny(text, patterns) => likes(text, patterns).reduce[Expression](Or(_, _))
    case NotLikeAny(text, patterns) => likes(text, patterns).map(Not(_)).reduce[Expression](Or(_, _))
    case other: RuntimeReplaceable => other.replacement.transformUp { case inner if isJavas(inner) => linear(inner) }
  }

  /** Whether Spark makes an expression of Java's of a value, and has no other function for it. */
  private def builds(each: Expression): Boolean = each match {
    case StringToMap(_, pair, key) => Seq(pair, key).exists(Searches.costs)
    case ParseUrl(Seq(_, _, key), _) =>
      LinearFunctions.known(key) match {
        case None => true
        case Some(text: UTF8String) => !text.toString.matches("[\\w.~-]*")
        case _ => false
      }
    case _ => false
  }

  private def refuse(each: Expression): Expression = throw new RefusedPattern(each match {
    case _: StringToMap =>
      "str_to_map takes its separators for expressions of Java's, so only plain ones are run, such as ',' and '='; " +
        "linear_split splits by expressions"
    case _ =>
      "parse_url makes an expression of Java's of its key, so only one that is written out, of letters, digits, ., _, ~ and -, " +
        "is run; linear_extract finds others in the query"
  })

  /** The arguments of an expression whose length multiplies what it costs for each character of another text. */
  private def multiplied(each: Expression): Seq[Int] = each match {
    case _: Levenshtein => Seq(0, 1)
    case _: StringLocate => Seq(0)
    case _: StringInstr | _: Contains | _: StringReplace | _: SubstringIndex | _: StringSplitSQL | _: SplitPart => Seq(1)
    case trim: String2TrimExpression if trim.children.length > 1 => Seq(1)
    case _ => Nil
  }

  /** Let an expression take short texts alone there: it hears neither a time limit nor a signal before its end. */
  private def bounded(each: Expression): Expression = {
    val at = multiplied(each)
    each.withNewChildren(each.children.zipWithIndex.map {
      case (child, index) if at.contains(index) && !isShort(child) =>
        StaticInvoke(Linear.getClass, child.dataType, Bounded, Seq(child))
      case (child, _) => child
    })
  }

  private val Bounded = "short"

  private def isShort(each: Expression): Boolean = each match {
    case call: StaticInvoke if call.functionName == Bounded => true
    case other if !other.dataType.isInstanceOf[StringType] => true
    case other => LinearFunctions.known(other).exists {
      case text: UTF8String => text.numChars <= Linear.Shortest
      case _ => true
    }
  }

  private def likes(text: Expression, patterns: Seq[UTF8String]): Seq[Expression] =
    patterns.map(each => LinearFunctions.like(text, Literal(each, StringType), '\\'))

  private def areHard(patterns: Seq[UTF8String]): Boolean =
    !patterns.forall(each => isPlain(Literal(each, StringType), '\\'))

  /** Whether Spark makes a comparison of a pattern: a text with `%` at its ends alone, or at one place inside. */
  private def isPlain(pattern: Expression, escape: Char): Boolean = pattern match {
    case Literal(text: UTF8String, _) =>
      val whole = text.toString
      val inside = whole.stripPrefix("%").stripSuffix("%")
      val isOneInside = whole.count(_ == '%') == 1
      whole.length <= Linear.Shortest && !whole.exists(each => each == '_' || each == escape) && (isOneInside || !inside.contains('%'))
    case _ => false
  }
}

/** What a lambda computes in each step. Loops in loops are at one row for days, so each step asks whether its task was ended. */
case class Heard(child: Expression) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def toString: String = child.toString
  override def sql: String = child.sql

  override def eval(input: InternalRow): Any = {
    Linear.heard()
    child.eval(input)
  }

  override protected def withNewChildInternal(made: Expression): Heard = copy(child = made)
}
