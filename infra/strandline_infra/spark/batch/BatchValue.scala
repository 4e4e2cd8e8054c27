package strandline

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.DataType

/** SQL's function `batch_value(value)`, in every session: a value that all rows of a batch have, as its number or its moment.
  *
  * Spark writes a number or a moment into the text of the code that it generates, so with another value each batch is another class:
  * compiled, interpreted and made quick anew. Here the code has a reference, and all batches of a table are of one class.
  */
class BatchFunctions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    val usage = "_FUNC_(value) - Returns a constant, which generated code finds by reference."
    val info = new ExpressionInfo(
      classOf[BatchValue].getName, null, BatchValue.Name, usage, "", "", "", "misc_funcs", "4.2.0", "", "built-in")
    extensions.injectFunction((FunctionIdentifier(BatchValue.Name), info, BatchValue.of))
  }
}

object BatchValue {
  val Name = "batch_value"

  def of(arguments: Seq[Expression]): Expression = arguments match {
    case Seq(value) if value.foldable => BatchValue(value)
    case _ => throw new IllegalArgumentException(s"$Name is given one constant")
  }
}

/** A constant that is not folded into its query. */
case class BatchValue(child: Expression) extends UnaryExpression {
  override def prettyName: String = BatchValue.Name
  override def foldable: Boolean = false
  override def nullable: Boolean = child.nullable
  override def dataType: DataType = child.dataType

  override def eval(input: InternalRow): Any = child.eval(input)

  override def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = child.eval() match {
    case null => ExprCode.forNullValue(dataType)
    case known =>
      val (plain, boxed) = (CodeGenerator.javaType(dataType), CodeGenerator.boxedType(dataType))
      val own = ctx.addReferenceObj("value", known, boxed)
      ev.copy(code = code"final $plain ${ev.value} = $own;", isNull = FalseLiteral)
  }

  override protected def withNewChildInternal(made: Expression): BatchValue = copy(child = made)
}
