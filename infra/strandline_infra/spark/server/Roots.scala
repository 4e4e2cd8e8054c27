package strandline

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.classic.SparkSession

/** The sessions that make views. Every other session is a client's, and only asks.
  *
  * There are two of them, each with a catalog of its own: in one the sensitive columns are masked, in the other they are
  * not. A client's session is made of one of them by the role of its user, so columns have one type in answers and in metadata.
  */
object Roots {
  @volatile var masked: SparkSession = _
  @volatile var clear: SparkSession = _

  /** Databases that a client may name. */
  val databases: java.util.Set[String] = ConcurrentHashMap.newKeySet()

  private val texts = new ConcurrentHashMap[(Int, String), java.lang.Boolean]()

  /** Begin with two sessions that share a Spark and nothing else. */
  def begin(one: SparkSession, other: SparkSession): Unit = {
    masked = one
    clear = other
  }

  /** Make a database that a client may name, whether or not something is in it yet. */
  def database(name: String): Unit = {
    Seq(masked, clear).foreach(_.sql(s"CREATE DATABASE IF NOT EXISTS `$name`"))
    databases.add(name)
  }

  def isRoot(session: AnyRef): Boolean = (session eq masked) || (session eq clear)

  /** Make or renew a view; from then on Spark may parse its text for a client. */
  def view(seesClear: Boolean, database: String, name: String, text: String): Unit = {
    val root = if (seesClear) clear else masked
    texts.put((key(root), text), true)
    root.sql(s"CREATE OR REPLACE VIEW `$database`.`$name` AS $text")
  }

  /** Whether a text is that of a view in the session's catalog: Spark parses it anew for each query. */
  def isView(session: SparkSession, text: String): Boolean = texts.containsKey((key(session), text))

  private def key(session: SparkSession): Int = System.identityHashCode(session.sharedState)
}
