package strandline

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.hive.service.cli.HiveSQLException

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.AnalysisException

/** What a client gets of an error. Spark's message of a query that cannot be analyzed ends with the plan, and the plan has the
  * salt of the masks and the paths of the lake: who has the salt can guess what is masked.
  */
object ClientError {
  private val Most = 4000

  @volatile private var secrets: Seq[String] = Nil

  /** Name the words that no message may have. */
  def hide(words: JList[String]): Unit = secrets = words.asScala.toSeq

  /** Do what a client asks; an error becomes one that it may read. */
  def safely[T](call: => T): T =
    try call
    catch { case error: Exception => throw of(error) }

  /** An error without its causes, whose messages would be sent as well. */
  def of(error: Throwable): HiveSQLException = {
    val (state, code) = error match {
      case known: HiveSQLException => (known.getSQLState, known.getErrorCode)
      case _ => (null, 0)
    }
    new HiveSQLException(textOf(error), state, code)
  }

  private def textOf(error: Throwable): String = {
    val causes = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(50).toSeq
    val text = causes.collectFirst {
      case refused: Refused => refused.getMessage
      // By its name, because its jar is another one; a task's error would be shown with its stack.
      case refused if refused.getClass.getName == "strandline.RefusedPattern" => refused.getMessage
      case _: OutOfMemoryError => "the query wants more memory than the server has (strandline serve --memory gives it more)"
      case analysis: AnalysisException => analysis.getSimpleMessage
      // Behind the message that a job was aborted, with the stack of a task.
      case known: SparkThrowable if known.getCondition != null => known.getMessage
    }.getOrElse(Option(error.getMessage).getOrElse(error.getClass.getSimpleName))
    secrets.foldLeft(text)(_.replace(_, "*")).take(Most)
  }
}
