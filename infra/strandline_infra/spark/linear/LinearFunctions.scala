package strandline

import scala.util.Try

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, StaticInvoke}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** SQL's functions `linear_…`, in every session: as Spark's own of like names, with expressions of RE2's. */
class LinearFunctions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    LinearFunctions.all.foreach { case (name, (usage, make)) =>
      val info = new ExpressionInfo(
        classOf[LinearFunctions].getName, null, name, usage, "", "", "", "string_funcs", "4.2.0", "", "built-in")
      extensions.injectFunction((FunctionIdentifier(name), info, make))
    }
}

object LinearFunctions {
  private val Texts = ArrayType(StringType, containsNull = false)
  private val First = Literal(1)
  private val All = Literal(-1)

  /** Make a call: of the pattern's own searcher where the pattern is a constant, so that it is read once. */
  private def call(name: String, result: DataType, text: Expression, pattern: Expression, more: Expression*): Expression = {
    val (own, others) = (asText(text), more.map(asArgument))
    val types = others.map(_.dataType)
    constant(pattern) match {
      case Some(known) =>
        val searcher = Literal.create(Searcher(known), ObjectType(classOf[Searcher]))
        Linear.compiled(known)
        Invoke(searcher, name, result, own +: others, StringType +: types)
      case None =>
        StaticInvoke(Linear.getClass, result, name, own +: asText(pattern) +: others, Seq(StringType, StringType) ++ types)
    }
  }

  private def asText(each: Expression): Expression = if (each.dataType == StringType) each else Cast(each, StringType)

  private def asArgument(each: Expression): Expression = each.dataType match {
    case StringType | IntegerType => each
    case _: StringType => Cast(each, StringType)
    case _ => Cast(each, IntegerType)
  }

  /** The text that a pattern is in every row; none where a row, or the moment of the query, decides it. */
  private[strandline] def constant(pattern: Expression): Option[String] =
    known(pattern).collect { case text: UTF8String => text.toString }

  /** The same, NULL as well. */
  private[strandline] def known(pattern: Expression): Option[Any] =
    if (!pattern.resolved || !pattern.foldable) None else Try(evaluable(pattern).eval()).toOption

  /** An expression without those that the optimizer alone can compute. */
  private def evaluable(each: Expression): Expression = each match {
    case replaced: RuntimeReplaceable => evaluable(replaced.replacement)
    case other => other.mapChildren(evaluable)
  }

  def matches(text: Expression, pattern: Expression): Expression = call("found", BooleanType, text, pattern)
  def extract(text: Expression, pattern: Expression, group: Expression = First): Expression =
    call("extract", StringType, text, pattern, group)
  def extractAll(text: Expression, pattern: Expression, group: Expression = First): Expression =
    call("extractAll", Texts, text, pattern, group)
  def replace(text: Expression, pattern: Expression, by: Expression, position: Expression = First): Expression =
    call("replace", StringType, text, pattern, by, position)
  def split(text: Expression, pattern: Expression, limit: Expression = All): Expression =
    call("split", Texts, text, pattern, limit)
  def position(text: Expression, pattern: Expression): Expression = call("position", IntegerType, text, pattern)

  def like(text: Expression, pattern: Expression, escape: Char): Expression = constant(pattern) match {
    case Some(known) => matches(text, Literal(Linear.ofLike(known, escape)))
    case None =>
      StaticInvoke(
        Linear.getClass, BooleanType, "like", Seq(asText(text), asText(pattern), Literal(escape.toInt)),
        Seq(StringType, StringType, IntegerType))
  }

  private type Make = Seq[Expression] => Expression

  val all: Map[String, (String, Make)] = Map(
    "linear_match" -> ("_FUNC_(text, pattern) - Returns whether a pattern is found in a text.", {
      case Seq(text, pattern) => matches(text, pattern)
      case given => wrong("linear_match", given)
    }: Make),
    "linear_extract" -> ("_FUNC_(text, pattern[, group]) - Returns a group of the first match, or ''.", {
      case Seq(text, pattern) => extract(text, pattern)
      case Seq(text, pattern, group) => extract(text, pattern, group)
      case given => wrong("linear_extract", given)
    }: Make),
    "linear_extract_all" -> ("_FUNC_(text, pattern[, group]) - Returns a group of every match.", {
      case Seq(text, pattern) => extractAll(text, pattern)
      case Seq(text, pattern, group) => extractAll(text, pattern, group)
      case given => wrong("linear_extract_all", given)
    }: Make),
    "linear_replace" -> ("_FUNC_(text, pattern, by) - Replaces every match; $1 is the first group.", {
      case Seq(text, pattern, by) => replace(text, pattern, by)
      case given => wrong("linear_replace", given)
    }: Make),
    "linear_split" -> ("_FUNC_(text, pattern[, limit]) - Splits a text at every match.", {
      case Seq(text, pattern) => split(text, pattern)
      case Seq(text, pattern, limit) => split(text, pattern, limit)
      case given => wrong("linear_split", given)
    }: Make))

  private def wrong(name: String, given: Seq[Expression]) =
    throw new RefusedPattern(s"$name is given ${given.length} values; DESCRIBE FUNCTION $name says which it takes")
}
