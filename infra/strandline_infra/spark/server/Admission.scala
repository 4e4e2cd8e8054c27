package strandline

import java.util.{IdentityHashMap, Locale}

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.command.{DescribeQueryCommand, ExplainCommand}
import org.apache.spark.sql.execution.SimpleMode
import org.apache.spark.sql.types.DataType

/** Decides whether a client's plan may be run. All lists name what is allowed, so what a later Spark adds is refused. */
object Admission {

  /** Most rows of an answer; one more is computed, by which the server sees that there are more. */
  @volatile var rows: Int = 100000

  private val Queries = Set(
    "Aggregate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join", "LateralJoin", "LocalLimit",
    "LocalRelation", "Offset", "OneRowRelation", "Pivot", "Project", "Range", "Sample", "Sort", "SubqueryAlias", "Union",
    "UnresolvedHaving", "UnresolvedHint", "UnresolvedInlineTable", "UnresolvedRelation", "UnresolvedSubqueryColumnAliases",
    "UnresolvedTVFAliases", "UnresolvedTableValuedFunction", "ResolvedInlineTable", "UnresolvedQualify", "UnresolvedWith", "Unpivot", "Window", "WithWindowDefinition",
  )

  private val Metadata = Set(
    "DescribeColumn", "DescribeFunction", "DescribeRelation", "SetCatalogAndNamespace", "ShowCatalogsCommand", "ShowColumns",
    "ShowCurrentNamespaceCommand", "ShowFunctions", "ShowNamespaces", "ShowNamespacesCommand", "ShowTables", "ShowViews",
    "ResolvedNamespace", "UnresolvedFunctionName", "UnresolvedNamespace", "UnresolvedTableOrView", "CurrentNamespace",
  )

  /** Spark's kinds of functions that compute, and of the kind "misc" those that do no more. */
  private val Kinds = Set(
    "agg_funcs", "array_funcs", "bitwise_funcs", "collection_funcs", "conditional_funcs", "conversion_funcs", "csv_funcs",
    "datetime_funcs", "generator_funcs", "hash_funcs", "json_funcs", "lambda_funcs", "map_funcs", "math_funcs",
    "predicate_funcs", "sketch_funcs", "string_funcs", "struct_funcs", "url_funcs", "variant_funcs", "window_funcs",
  )
  private val Others = Set(
    "current_catalog", "current_database", "current_schema", "current_user", "equal_null", "monotonically_increasing_id",
    "raise_error", "assert_true", "session_user", "typeof", "user", "uuid", "version",
    "linear_extract", "linear_extract_all", "linear_match", "linear_replace", "linear_split",
  )
  private val Tables = Set(
    "range", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple",
    "variant_explode", "variant_explode_outer",
  )

  /** Expressions that reach out of the rows, or run a text, by whatever name they were called. */
  private val Reaching = Set(
    "CallMethodViaReflection", "TryReflect", "InputFileName", "InputFileBlockStart", "InputFileBlockLength", "ScalaUDF",
    "PythonUDF", "PythonUDAF", "PythonUDTF", "UnresolvedPolymorphicPythonUDTF", "ExpressionWithUnresolvedIdentifier",
    "FileSourceMetadataAttribute", "HiveSimpleUDF", "HiveGenericUDF", "XmlToStructs", "AvroDataToCatalyst",
    "ProtobufDataToCatalyst", "VariableReference", "UnresolvedIdentifier",
  )

  private val Leaves = Set("ResolvedInlineTable", "LocalRelation", "OneRowRelation", "Range", "CTERelationRef")

  /** Characters of a pattern of names, and how many of them may be any text: Spark makes an expression of Java's of it. */
  private val Names = "[\\w\\s%*|.\\\\-]*"
  private val Wild = 4

  def limit(most: Int): Unit = rows = most

  /** Refuse a pattern of names that Java's engine could be at for days; a driver may have none. */
  def checkNames(pattern: String): Unit =
    if (pattern != null && (!pattern.matches(Names) || pattern.count(each => each == '%' || each == '*') > Wild)) {
      refuse(s"a pattern of names with other signs than letters, _, |, and at most $Wild of % and *")
    }

  def admit(session: SparkSession, plan: LogicalPlan): LogicalPlan = plan match {
    case ExplainCommand(query, SimpleMode) => ExplainCommand(admit(session, query), SimpleMode)
    case described: DescribeQueryCommand =>
      query(session, described.plan)
      described
    case _ if Metadata(nameOf(plan)) =>
      new Parsed(Metadata ++ Queries).visit(plan)
      plan.productIterator.collect { case Some(pattern: String) => pattern }.foreach(checkNames)
      plan
    case _ =>
      val limit = Literal(rows + 1)
      GlobalLimit(limit, LocalLimit(limit, query(session, plan)))
  }

  private def query(session: SparkSession, plan: LogicalPlan): LogicalPlan = {
    new Parsed(Queries).visit(plan)
    val analyzed = session.sessionState.executePlan(plan).analyzed
    Analyzed.visit(analyzed)
    analyzed
  }

  private def refuse(what: String) = throw new Refused(
    s"$what is refused: this server answers queries of the lake's tables, such as " +
      "SELECT count(*) FROM silver.x; it changes nothing, and reads nothing else")

  private def nameOf(each: AnyRef): String = each.getClass.getSimpleName.stripSuffix("$")

  private def mayName(parts: Seq[String]): Boolean = parts.map(_.toLowerCase(Locale.ROOT)) match {
    case Seq("spark_catalog", rest @ _*) if rest.nonEmpty => mayName(rest)
    case Seq(database, _) => Roots.databases.contains(database)
    case Seq(_) => true
    case _ => false
  }

  private def mayUse(parts: Seq[String]): Boolean = parts.map(_.toLowerCase(Locale.ROOT)) match {
    case Seq() | Seq("default") | Seq("spark_catalog") => true
    case Seq("spark_catalog", database) => database == "default" || Roots.databases.contains(database)
    case Seq(database) => Roots.databases.contains(database)
    case _ => false
  }

  private def checkFunction(parts: Seq[String]): Unit = {
    val name = parts.last.toLowerCase(Locale.ROOT)
    val kind = FunctionRegistry.builtin.lookupFunction(FunctionIdentifier(name)).map(_.getGroup)
    if (parts.length != 1 || !(Others(name) || kind.exists(Kinds))) refuse(s"the function ${parts.mkString(".")}")
  }

  /** Visits all that a parsed plan consists of: nodes, expressions, and what hides in options, tuples and maps. */
  private final class Parsed(allowed: Set[String]) {
    private val seen = new IdentityHashMap[AnyRef, AnyRef]()

    def visit(each: Any): Unit = each match {
      case _: DataType | _: String | null =>
      case plan: LogicalPlan => once(plan) {
        if (!allowed(nameOf(plan))) refuse(nameOf(plan))
        checkPlan(plan)
        parts(plan)
        plan.children.foreach(visit)
        plan.innerChildren.foreach(visit)
      }
      case expression: Expression => once(expression) {
        if (Reaching(nameOf(expression))) refuse(nameOf(expression))
        checkExpression(expression)
        parts(expression)
        expression.children.foreach(visit)
      }
      case map: scala.collection.Map[_, _] => map.foreach { case (key, value) => visit(key); visit(value) }
      case many: Iterable[_] => many.foreach(visit)
      case many: Array[_] => many.foreach(visit)
      case product: Product => once(product.asInstanceOf[AnyRef])(product.productIterator.foreach(visit))
      case _ =>
    }

    private def once(each: AnyRef)(look: => Unit): Unit = if (seen.put(each, each) == null) look

    private def parts(each: AnyRef): Unit = each match {
      case product: Product => product.productIterator.foreach(visit)
      case _ =>
    }

    private def checkPlan(plan: LogicalPlan): Unit = plan match {
      case relation: UnresolvedRelation =>
        if (relation.isStreaming || !relation.options.isEmpty || !mayName(relation.multipartIdentifier)) {
          refuse(s"reading ${relation.multipartIdentifier.mkString(".")}")
        }
      case table: UnresolvedTableOrView => if (!mayName(table.multipartIdentifier)) refuse(s"describing ${table.multipartIdentifier.mkString(".")}")
      case space: UnresolvedNamespace => if (!mayUse(space.multipartIdentifier)) refuse(s"the database ${space.multipartIdentifier.mkString(".")}")
      case function: UnresolvedTableValuedFunction =>
        if (function.name.length != 1 || !Tables(function.name.head.toLowerCase(Locale.ROOT))) {
          refuse(s"the function ${function.name.mkString(".")}")
        }
      case described: DescribeRelation =>
        // EXTENDED would show the text of a view, and in it the paths of the lake.
        if (described.isExtended) refuse("DESCRIBE EXTENDED")
      case described: DescribeColumn => if (described.isExtended) refuse("DESCRIBE EXTENDED")
      case _ =>
    }

    private def checkExpression(expression: Expression): Unit = expression match {
      case function: UnresolvedFunction => checkFunction(function.nameParts)
      case generator: UnresolvedGenerator => checkFunction(generator.name.database.toSeq :+ generator.name.funcName)
      case _ =>
    }
  }

  /** Every relation of an analyzed plan is below a view, and no expression outside of the views reaches out of the rows. */
  private object Analyzed {
    def visit(plan: LogicalPlan): Unit = plan match {
      case view: View =>
        val database = view.desc.identifier.database.getOrElse("")
        if (view.isTempView || !Roots.databases.contains(database)) refuse(s"the view ${view.desc.identifier}")
      case _ =>
        if (plan.children.isEmpty && !Leaves(nameOf(plan))) refuse(s"a relation that is no view (${nameOf(plan)})")
        if (plan.isInstanceOf[Command]) refuse(nameOf(plan))
        plan.children.foreach(visit)
        plan.innerChildren.foreach { case inner: LogicalPlan => visit(inner); case _ => }
        plan.expressions.foreach(_.foreach { expression =>
          if (Reaching(nameOf(expression))) refuse(nameOf(expression))
        })
        plan.subqueries.foreach(visit)
    }
  }
}
