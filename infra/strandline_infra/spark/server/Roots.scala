package strandline

import java.util.concurrent.{ConcurrentHashMap, CopyOnWriteArrayList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession

/** A session that makes views, with a catalog of its own, of which clients' sessions are made.
  *
  * @param seesClear Whether sensitive columns are as they are in its views.
  */
final class Root(val session: SparkSession, val seesClear: Boolean) {
  private val texts = ConcurrentHashMap.newKeySet[String]()
  private val views = ConcurrentHashMap.newKeySet[(String, String)]()
  private val users = ConcurrentHashMap.newKeySet[AnyRef]()

  def database(name: String): Unit = session.sql(s"CREATE DATABASE IF NOT EXISTS `$name`")

  /** Make or renew a view; from then on Spark may parse its text for a client. */
  def view(database: String, name: String, text: String): Unit = {
    texts.add(text)
    session.sql(s"CREATE OR REPLACE VIEW `$database`.`$name` AS $text")
    views.add((database, name))
  }

  /** Whether a text is that of a view: Spark parses it anew for each query. */
  def has(text: String): Boolean = texts.contains(text)

  /** Drop all views, for those of another moment. */
  def empty(): Unit = {
    views.asScala.foreach { case (database, name) => session.sql(s"DROP VIEW IF EXISTS `$database`.`$name`") }
    views.clear()
    texts.clear()
  }

  def isFree: Boolean = users.isEmpty

  def usedBy(handle: AnyRef): Unit = users.add(handle)

  def leftBy(handle: AnyRef): Unit = users.remove(handle)
}

/** The sessions that make views. Every other session is a client's, and only asks.
  *
  * There are two of them of what there is, each with a catalog of its own: in one the sensitive columns are masked, in the other they
  * are not. A client's session is made of one of them by the role of its user, so columns have one type in answers and in metadata. A
  * session that is pinned to a moment is made of one that has the views of that moment.
  */
object Roots {
  @volatile var masked: SparkSession = _
  @volatile var clear: SparkSession = _

  /** Databases that a client may name. */
  val databases: java.util.Set[String] = ConcurrentHashMap.newKeySet()

  private val all = new CopyOnWriteArrayList[Root]()

  /** Begin with two sessions that share a Spark and nothing else. */
  def begin(one: SparkSession, other: SparkSession): Unit = {
    masked = one
    clear = other
    all.add(new Root(one, seesClear = false))
    all.add(new Root(other, seesClear = true))
  }

  /** Make a session, with a catalog of its own, the root for the views of a moment; it has all databases. */
  def pinned(session: SparkSession, seesClear: Boolean): Root = {
    val root = new Root(session, seesClear)
    all.add(root)
    databases.asScala.foreach(root.database)
    root
  }

  /** Make a database that a client may name, whether or not something is in it yet. */
  def database(name: String): Unit = {
    all.asScala.foreach(_.database(name))
    databases.add(name)
  }

  def isRoot(session: AnyRef): Boolean = all.asScala.exists(_.session eq session)

  /** Make or renew a view of what there is. */
  def view(seesClear: Boolean, database: String, name: String, text: String): Unit =
    live(seesClear).view(database, name, text)

  /** Whether a text is that of a view in the session's catalog. */
  def isView(session: SparkSession, text: String): Boolean = of(session).exists(_.has(text))

  def seesClear(session: SparkSession): Boolean = of(session).exists(_.seesClear)

  /** The root of what there is. */
  def live(seesClear: Boolean): Root = all.get(if (seesClear) 1 else 0)

  /** Let a session that ended, or reads at another moment, hold no root but one. */
  def leave(handle: AnyRef, but: Option[Root] = None): Unit =
    all.asScala.foreach(root => if (!but.contains(root)) root.leftBy(handle))

  private def of(session: SparkSession): Option[Root] = all.asScala.find(_.session.sharedState eq session.sharedState)
}
