package strandline

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** SQL's function `strict_json(payload, fields)`, in every session: a payload's declared fields, why it is no row, and what it has beside
  * them. More arguments say how: `unnoted`, that nothing is noted beside them; `leaves PATH`, nothing of a path; `drops`, that values of
  * another type are NULL.
  *
  * The fields are a type as JSON (`StructType.json()`), because a text of DDL has no names that differ in case alone.
  */
class StrictFunctions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    val usage = "_FUNC_(payload, fields) - Returns the declared fields of a payload that is one JSON object, `_problem` and `_drift`."
    val info = new ExpressionInfo(
      classOf[StrictJson].getName, null, StrictJson.Name, usage, "", "", "", "json_funcs", "4.2.0", "", "built-in")
    extensions.injectFunction((FunctionIdentifier(StrictJson.Name), info, StrictJson.of))
  }
}

object StrictJson {
  val Name = "strict_json"
  val Problem = "_problem"
  val Drift = "_drift"
  private val Leaves = "leaves "

  def of(arguments: Seq[Expression]): Expression = arguments match {
    case payload +: fields +: more if (fields +: more).forall(_.foldable) =>
      val declared = DataType.fromJson(fields.eval().toString).asInstanceOf[StructType]
      val bytes = if (payload.dataType == BinaryType) payload else Cast(payload, BinaryType)
      val how = more.map(_.eval().toString)
      StrictJson(
        bytes,
        declared,
        SQLConf.get.sessionLocalTimeZone,
        notes = !how.contains("unnoted"),
        leaves = how.filter(_.startsWith(Leaves)).map(_.stripPrefix(Leaves)),
        drops = how.contains("drops"))
    case _ => throw new IllegalArgumentException(s"$Name is given a payload, and the type of its fields as JSON")
  }
}

/** A payload as one struct. Its code calls the reader, so that it stays within the code of a whole stage.
  *
  * @param zone The time zone of a time that has none.
  * @param notes Whether what it has beside the declaration is noted.
  * @param leaves The paths of which it is not.
  * @param drops Whether a value of another type is NULL, and the payload a row.
  */
case class StrictJson(
    child: Expression,
    declared: StructType,
    zone: String,
    notes: Boolean,
    leaves: Seq[String],
    drops: Boolean)
    extends UnaryExpression {
  @transient private lazy val reader = new JsonReader(declared, zone, notes, leaves, drops)

  override def prettyName: String = StrictJson.Name
  override def nullable: Boolean = false
  override lazy val dataType: DataType = StructType(
    declared.fields ++ Seq(StrictJson.Problem, StrictJson.Drift).map(StructField(_, StringType)))

  override def checkInputDataTypes(): TypeCheckResult = ExprUtils.checkJsonSchema(declared)

  override def eval(input: InternalRow): Any = reader.read(child.eval(input).asInstanceOf[Array[Byte]])

  override def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val own = ctx.addReferenceObj("reader", reader)
    val payload = child.genCode(ctx)
    val row = classOf[InternalRow].getName
    ev.copy(
      code = code"""
        ${payload.code}
        $row ${ev.value} = $own.read(${payload.isNull} ? null : ${payload.value});""",
      isNull = FalseLiteral)
  }

  override protected def withNewChildInternal(made: Expression): StrictJson = copy(child = made)
}
