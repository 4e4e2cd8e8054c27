package strandline

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.hive.thriftserver.Asker
import org.apache.spark.sql.types.{DataType, StructType}

/** What a client is answered when it asks for anything but an answer. */
final class Refused(message: String) extends SecurityException(message)

/** Lets a client's session run nothing but queries of the lake's views, and harmless metadata.
  *
  * The parser is the door of every text. Behind it a plan is checked twice: as parsed, against lists of what is allowed, and as
  * analyzed, where every relation must be below a view. The analyzed plan is what is run, so what is checked is what is run.
  */
class Guard extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectParser((session, parser) => new GuardedParser(session, parser))
}

final class GuardedParser(session: SparkSession, parser: ParserInterface) extends ParserInterface {
  private val own = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession]

  override def parsePlan(text: String): LogicalPlan = admitted(text, parser.parsePlan(text))

  override def parseQuery(text: String): LogicalPlan = admitted(text, parser.parseQuery(text))

  override def parsePlanWithParameters(text: String, context: ParameterContext): LogicalPlan =
    admitted(text, parser.parsePlanWithParameters(text, context))

  override def parseExpression(text: String): Expression = parser.parseExpression(text)

  override def parseTableIdentifier(text: String): TableIdentifier = parser.parseTableIdentifier(text)

  override def parseFunctionIdentifier(text: String): FunctionIdentifier = parser.parseFunctionIdentifier(text)

  override def parseMultipartIdentifier(text: String): Seq[String] = parser.parseMultipartIdentifier(text)

  override def parseRoutineParam(text: String): StructType = parser.parseRoutineParam(text)

  override def parseTableSchema(text: String): StructType = parser.parseTableSchema(text)

  override def parseDataType(text: String): DataType = parser.parseDataType(text)

  private def admitted(text: String, plan: LogicalPlan): LogicalPlan =
    if (Roots.isRoot(own) || Roots.isView(own, text)) plan
    else {
      Asker.is(own)
      Admission.admit(own, plan)
    }
}
