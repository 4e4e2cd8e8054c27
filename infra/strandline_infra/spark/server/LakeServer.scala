package org.apache.spark.sql.hive.thriftserver

import java.lang.reflect.Field
import java.net.InetAddress
import java.util.{HashMap => JHashMap, List => JList, Map => JMap}
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, CountDownLatch, ExecutionException, Future, LinkedBlockingQueue}
import java.util.concurrent.{RejectedExecutionException, RejectedExecutionHandler, ScheduledThreadPoolExecutor, ThreadFactory}
import java.util.concurrent.{ThreadPoolExecutor, TimeoutException, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.hive.conf.HiveConf
import org.apache.hive.service.cli._
import org.apache.hive.service.cli.thrift.ThriftBinaryCLIService
import org.apache.hive.service.rpc.thrift.{TProtocolVersion, TRowSet}
import org.apache.hive.service.server.HiveServer2
import org.apache.thrift.protocol.TProtocol
import org.apache.thrift.server.{ServerContext, TServer, TServerEventHandler, TThreadPoolServer}
import org.apache.thrift.transport.{TSaslServerTransport, TServerSocket, TSocket, TTransport, TTransportFactory}
import strandline.{Admission, ClientError, Root, Roots, Users}

import org.apache.spark.sql.catalyst.CurrentUserContext
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.hive.thriftserver.ReflectionUtils._
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager
import org.apache.spark.sql.hive.thriftserver.ui.HiveThriftServer2EventManager
import org.apache.spark.sql.internal.SQLConf

/** Spark's Thrift server with a service in front that lets through what a reader needs. */
class LakeServer extends HiveServer2 with ReflectedCompositeService {
  override def init(conf: HiveConf): Unit = {
    val service = new LakeService(this)
    setSuperField(this, "cliService", service)
    addService(service)
    val thrift = new LakeDoor(service)
    setSuperField(this, "thriftCLIService", thrift)
    addService(thrift)
    initCompositeService(conf)
    // Hive prefers two variables of the environment to its configuration, so the server could be open to a network without TLS.
    val host = conf.getVar(HiveConf.ConfVars.HIVE_SERVER2_THRIFT_BIND_HOST)
    setAncestorField(thrift, 2, "hiveHost", host)
    setAncestorField(thrift, 2, "serverIPAddress", InetAddress.getByName(host))
    setAncestorField(thrift, 2, "portNum", Int.box(conf.getIntVar(HiveConf.ConfVars.HIVE_SERVER2_THRIFT_PORT)))
  }

  override def start(): Unit = startCompositeService()
}

/** The socket of the server. Hive's reads from a connection without an end, and each has a thread of its own: as many silent
  * ones as there are threads kept everybody else out, and so did those that send a byte now and then. One that has not shown a
  * password is closed after some seconds, whatever it sends; one that has may be idle for long, as the pool of a dashboard is.
  * Where all threads are taken, those who come wait instead of being refused.
  */
class LakeDoor(service: CLIService) extends ThriftBinaryCLIService(service) {
  override protected def initializeServer(): Unit = {
    super.initializeServer()
    set(get(server, classOf[TServer], "serverTransport_"), classOf[TServerSocket], "clientTimeout_", LakeDoor.Unknown)
    get(server, classOf[TThreadPoolServer], "executorService_") match {
      case threads: ThreadPoolExecutor => threads.setRejectedExecutionHandler(LakeDoor.Waits)
      case _ =>
    }
    server.setServerEventHandler(new LakeDoor.Known(server.getEventHandler))
    // What it returns has shown a password: the hand-shakes of TLS and of the password are in it.
    val shakes = field(classOf[TServer], "inputTransportFactory_")
    shakes.set(server, new LakeDoor.Hurried(shakes.get(server).asInstanceOf[TTransportFactory]))
  }

  private def get(of: AnyRef, in: Class[_], name: String): AnyRef = field(in, name).get(of)

  private def set(of: AnyRef, in: Class[_], name: String, value: Int): Unit = field(in, name).setInt(of, value)

  private def field(in: Class[_], name: String): Field = {
    val found = in.getDeclaredField(name)
    found.setAccessible(true)
    found
  }
}

object LakeDoor {

  /** Milliseconds for each read of a connection until its password was accepted; the hand-shake of a slow client has several. */
  val Unknown = 10000

  /** Milliseconds until the password has come; to check it is the server's own work, which may take long beside others. */
  val Whole = 15000

  /** The same as the first afterwards: a day. */
  val Idle = 24 * 60 * 60 * 1000

  private val deadlines = {
    val made: ThreadFactory = daemon(_, "deadlines of hand-shakes")
    val threads = new ScheduledThreadPoolExecutor(1, made)
    threads.setRemoveOnCancelPolicy(true)
    threads
  }

  private def daemon(work: Runnable, name: String): Thread = {
    val thread = new Thread(work, name)
    thread.setDaemon(true)
    thread
  }

  /** Lets a connection show its password within a while, or closes it. */
  private class Hurried(inner: TTransportFactory) extends TTransportFactory {
    override def getTransport(transport: TTransport): TTransport = {
      // In a thread of its own: what closes a connection of TLS may wait for what reads from it.
      val closes = deadlines.schedule(
        (() => daemon(() => transport.close(), "closes a connection").start()): Runnable, Whole, TimeUnit.MILLISECONDS)
      deadline.set(closes)
      try inner.getTransport(transport)
      finally shown()
    }
  }

  /** The deadline of the connection that this thread reads from. */
  private val deadline = new ThreadLocal[Future[_]]

  /** End it: the password has come, or the connection has ended. */
  def shown(): Unit = {
    Option(deadline.get).foreach(_.cancel(false))
    deadline.remove()
  }

  /** Called once a connection's password was accepted, and again before each of its calls. */
  private class Known(hives: TServerEventHandler) extends TServerEventHandler {
    override def preServe(): Unit = hives.preServe()

    override def createContext(in: TProtocol, out: TProtocol): ServerContext = {
      socketOf(in.getTransport).foreach(_.setSocketTimeout(Idle))
      hives.createContext(in, out)
    }

    override def processContext(context: ServerContext, in: TTransport, out: TTransport): Unit =
      hives.processContext(context, in, out)

    override def deleteContext(context: ServerContext, in: TProtocol, out: TProtocol): Unit =
      hives.deleteContext(context, in, out)

    private def socketOf(transport: TTransport): Option[TSocket] = transport match {
      case secured: TSaslServerTransport => socketOf(secured.getUnderlyingTransport)
      case socket: TSocket => Some(socket)
      case _ => None
    }
  }

  private object Waits extends RejectedExecutionHandler {
    override def rejectedExecution(task: Runnable, threads: ThreadPoolExecutor): Unit =
      while (!threads.getQueue.offer(task, 1, TimeUnit.SECONDS)) {
        if (threads.isShutdown) throw new RejectedExecutionException("the server stops")
      }
  }
}

object LakeServer {

  /** Let a session, and a second one of the same Spark with a catalog of its own, be those that make views. */
  def begin(session: org.apache.spark.sql.SparkSession): Unit = {
    val first = session.asInstanceOf[SparkSession]
    Roots.begin(first, new SparkSession(first.sparkContext))
  }

  /** Start a server.
    *
    * @param options Hive's options of its server: address, port, TLS, folders.
    */
  def listen(options: JMap[String, String]): LakeServer = {
    HiveThriftServer2.eventManager = new HiveThriftServer2EventManager(Roots.masked.sparkContext)
    val conf = new HiveConf(Roots.masked.sessionState.newHadoopConf(), classOf[HiveConf])
    options.asScala.foreach { case (name, value) => conf.set(name, value) }
    // Hive makes the check of passwords from a configuration of its own, which begins with the properties of the JVM.
    val users = "hive.server2.custom.authentication.class"
    System.setProperty(users, options.get(users))
    val server = new LakeServer
    server.init(conf)
    server.start()
    server
  }
}

/** Who asks: the pool of a session's tasks has the name of its user. */
object Asker {
  val Pool: String = SQLConf.THRIFTSERVER_POOL.key

  /** Let `current_user()` be the user of a session, in the thread that answers; otherwise it is the account of the server. */
  def is(session: SparkSession): Unit = CurrentUserContext.CURRENT_USER.set(session.conf.get(Pool))
}

/** Questions of those who see sensitive columns: each waits until it is written down. */
object Unmasked {
  final class Question(val who: String, val why: String, val sql: String) {
    private val isWritten = new CountDownLatch(1)

    def written(): Unit = isWritten.countDown()

    private[thriftserver] def await(): Unit = if (!isWritten.await(30, TimeUnit.SECONDS)) {
      throw new HiveSQLException("the log of unmasked access cannot be written, so nothing is shown unmasked")
    }
  }

  private val waiting = new LinkedBlockingQueue[Question]()

  private[thriftserver] def ask(who: String, why: String, sql: String): Unit = {
    val question = new Question(who, why, sql)
    waiting.put(question)
    question.await()
  }

  /** The next question that waits, or null. */
  def next(): Question = waiting.poll()
}

/** Sessions that read at a moment: each waits until there are views of its tables at the versions of that moment. */
object AtMoment {
  final class Asked(val handle: SessionHandle, val text: String, val seesClear: Boolean) {
    private val answer = new CompletableFuture[(Root, String)]()

    /** The session holds the root from now on, so that it is not taken for another moment. */
    def done(root: Root, words: String): Unit = {
      root.usedBy(handle)
      answer.complete((root, words))
    }

    def refuse(words: String): Unit = answer.completeExceptionally(new HiveSQLException(words))

    private[thriftserver] def await(): (Root, String) =
      try answer.get(Patience, TimeUnit.SECONDS)
      catch {
        case error: ExecutionException => throw error.getCause
        case _: TimeoutException => throw new HiveSQLException("the views of the moment were not made in time; say it again")
      }
  }

  private val Patience = 180L

  /** What a longer text says is no setting: an expression of Java's may take the square of its length. */
  private val Most = 300

  val Name = "strandline.moment"
  val InAddress = s"set:hiveconf:$Name"
  val Live = "live"
  private val Setting = "(?is)\\s*SET\\s+strandline\\.moment\\s*(?:=(.*))?".r
  private val Unsetting = "(?is)\\s*RESET\\s+strandline\\.moment\\s*".r

  private val waiting = new LinkedBlockingQueue[Asked]()

  /** What a statement says of the moment: None where it is another one; no text where it only asks. */
  def said(text: String): Option[Option[String]] =
    if (text == null || text.length > Most) None
    else text.stripTrailing.stripSuffix(";") match {
      case Unsetting() => Some(Some(""))
      case Setting(value) => Some(Option(value).map(each => unquoted(each.strip)))
      case _ => None
    }

  private def unquoted(text: String): String =
    if (text.length > 1 && text.head == text.last && "'\"".contains(text.head)) text.substring(1, text.length - 1) else text

  private[thriftserver] def ask(handle: SessionHandle, text: String, seesClear: Boolean): (Root, String) = {
    val asked = new Asked(handle, text, seesClear)
    waiting.put(asked)
    asked.await()
  }

  /** The next session that waits, or null. */
  def next(): Asked = waiting.poll()

  /** Make a root for the views of a moment. */
  def root(seesClear: Boolean): Root = Roots.pinned(new SparkSession(Roots.masked.sparkContext), seesClear)
}

/** The calls of a client. What a client sends beside a statement is dropped: it could set options of Spark, of Hive and of
  * the JVM.
  */
class LakeService(server: HiveServer2) extends CLIService(server) with ReflectedCompositeService {
  override def init(conf: HiveConf): Unit = {
    setSuperField(this, "hiveConf", conf)
    val manager = new SparkSQLSessionManager(server, Roots.masked)
    setSuperField(this, "sessionManager", manager)
    addService(manager)
    initCompositeService(conf)
  }

  override def start(): Unit = startCompositeService()

  override def openSession(
      protocol: TProtocolVersion, user: String, password: String, ip: String, asked: JMap[String, String]): SessionHandle = {
    val found = Users.find(user).getOrElse(throw new HiveSQLException(s"there is no user $user"))
    val handle = super.openSession(protocol, user, password, ip, new JHashMap[String, String]())
    val session = (if (found.unmasked.isEmpty) Roots.masked else Roots.clear).newSession()
    // Otherwise all tasks of one user's query come before those of another's.
    session.conf.set(Asker.Pool, user)
    contexts.put(handle, session)
    Option(asked).flatMap(options => Option(options.get("use:database"))).filter(_ != "default").foreach { database =>
      try session.sql(s"USE `${database.replace("`", "``")}`")
      catch {
        case error: Exception =>
          closeSession(handle)
          throw new HiveSQLException(s"there is no database $database: ${ClientError.of(error).getMessage}")
      }
    }
    Option(asked).flatMap(options => Option(options.get(AtMoment.InAddress))).foreach { moment =>
      try pin(handle, moment)
      catch {
        case error: Exception =>
          closeSession(handle)
          throw ClientError.of(error)
      }
    }
    handle
  }

  override def closeSession(handle: SessionHandle): Unit =
    try super.closeSession(handle)
    finally {
      Roots.leave(handle)
      moments.remove(handle)
    }

  override def openSessionWithImpersonation(
      protocol: TProtocolVersion, user: String, password: String, ip: String, asked: JMap[String, String],
      token: String): SessionHandle = throw new HiveSQLException("a user asks for itself only")

  override def executeStatement(
      handle: SessionHandle, text: String, overlay: JMap[String, String], timeout: Long): OperationHandle = {
    note(handle, text)
    ClientError.safely(super.executeStatement(handle, settled(handle, text), new JHashMap[String, String](), timeout))
  }

  override def executeStatement(handle: SessionHandle, text: String, overlay: JMap[String, String]): OperationHandle =
    executeStatement(handle, text, overlay, 0)

  override def executeStatementAsync(
      handle: SessionHandle, text: String, overlay: JMap[String, String], timeout: Long): OperationHandle = {
    note(handle, text)
    ClientError.safely(super.executeStatementAsync(handle, settled(handle, text), new JHashMap[String, String](), timeout))
  }

  /** The moment at which each session reads, in words; none for one that reads what there is. */
  private val moments = new ConcurrentHashMap[SessionHandle, String]()

  /** A statement as it is run: of one that sets the moment, or asks which it is, the question that answers it. */
  private def settled(handle: SessionHandle, text: String): String = AtMoment.said(text).fold(text) { value =>
    value.foreach(pin(handle, _))
    val words = moments.getOrDefault(handle, AtMoment.Live)
    s"SELECT '${AtMoment.Name}' AS key, '${words.replaceAll("[^\\w .:+-]", "?")}' AS value"
  }

  /** Let a session read at a moment from now on, or what there is: by another session of Spark, whose catalog has those views. */
  private def pin(handle: SessionHandle, text: String): Unit = {
    val before = contexts.get(handle).asInstanceOf[SparkSession]
    val seesClear = Roots.seesClear(before)
    val isLive = text.isEmpty || text.equalsIgnoreCase(AtMoment.Live)
    val (root, words) =
      if (isLive) (Roots.live(seesClear), AtMoment.Live) else AtMoment.ask(handle, text, seesClear)
    val session = root.session.newSession()
    session.conf.set(Asker.Pool, before.conf.get(Asker.Pool))
    val database = before.catalog.currentDatabase
    if (database != "default") session.sql(s"USE `${database.replace("`", "``")}`")
    contexts.put(handle, session)
    moments.put(handle, words)
    Roots.leave(handle, Some(root))
  }

  override def executeStatementAsync(handle: SessionHandle, text: String, overlay: JMap[String, String]): OperationHandle =
    executeStatementAsync(handle, text, overlay, 0)

  override def getInfo(handle: SessionHandle, kind: GetInfoType): GetInfoValue = kind match {
    case GetInfoType.CLI_SERVER_NAME | GetInfoType.CLI_DBMS_NAME => new GetInfoValue("Spark SQL")
    case GetInfoType.CLI_DBMS_VER => new GetInfoValue(Roots.masked.sparkContext.version)
    case _ => super.getInfo(handle, kind)
  }

  /** An answer of more rows than allowed fails instead of being cut, so a part is never taken for the whole. */
  override def fetchResults(
      operation: OperationHandle, order: FetchOrientation, most: Long, kind: FetchType): TRowSet = {
    val found = ClientError.safely(super.fetchResults(operation, order, most, kind))
    val end = found.getStartRowOffset + sizeOf(found)
    if (end > Admission.rows) {
      throw new HiveSQLException(
        s"the answer has more than ${Admission.rows} rows; add up, or say LIMIT (strandline serve --rows sets the most)")
    }
    found
  }

  override def getOperationStatus(operation: OperationHandle): OperationStatus = {
    val status = super.getOperationStatus(operation)
    Option(status.getOperationException).fold(status)(error => new OperationStatus(status.getState, ClientError.of(error)))
  }

  override def getSchemas(handle: SessionHandle, catalog: String, schema: String): OperationHandle =
    named(schema)(super.getSchemas(handle, catalog, schema))

  override def getTables(
      handle: SessionHandle, catalog: String, schema: String, table: String, types: JList[String]): OperationHandle =
    named(schema, table)(super.getTables(handle, catalog, schema, table, types))

  override def getColumns(
      handle: SessionHandle, catalog: String, schema: String, table: String, column: String): OperationHandle =
    named(schema, table, column)(super.getColumns(handle, catalog, schema, table, column))

  override def getFunctions(handle: SessionHandle, catalog: String, schema: String, function: String): OperationHandle =
    named(schema, function)(super.getFunctions(handle, catalog, schema, function))

  /** Answer a question about names; each is a pattern. */
  private def named(patterns: String*)(answer: => OperationHandle): OperationHandle = ClientError.safely {
    patterns.foreach(Admission.checkNames)
    answer
  }

  /** No table declares keys; Hive would ask a metastore, and there is none. */
  override def getPrimaryKeys(handle: SessionHandle, catalog: String, schema: String, table: String): OperationHandle =
    nothing(handle, "TABLE_CAT STRING, TABLE_SCHEM STRING, TABLE_NAME STRING, COLUMN_NAME STRING, KEY_SEQ INT, PK_NAME STRING")

  override def getCrossReference(
      handle: SessionHandle, catalog: String, schema: String, table: String, otherCatalog: String, otherSchema: String,
      otherTable: String): OperationHandle =
    nothing(
      handle,
      "PKTABLE_CAT STRING, PKTABLE_SCHEM STRING, PKTABLE_NAME STRING, PKCOLUMN_NAME STRING, FKTABLE_CAT STRING, " +
        "FKTABLE_SCHEM STRING, FKTABLE_NAME STRING, FKCOLUMN_NAME STRING, KEY_SEQ INT, UPDATE_RULE INT, DELETE_RULE INT, " +
        "FK_NAME STRING, PK_NAME STRING, DEFERRABILITY INT")

  /** An answer with columns and without rows. */
  private def nothing(handle: SessionHandle, columns: String): OperationHandle = {
    val empty = columns.split(", ").map(_.split(" ")).map { case Array(name, kind) => s"CAST(NULL AS $kind) AS $name" }
    executeStatement(handle, s"SELECT ${empty.mkString(", ")} WHERE false", new JHashMap[String, String](), 0)
  }

  private def sizeOf(found: TRowSet): Int =
    if (found.getColumnsSize > 0) {
      val column = found.getColumns.get(0).getFieldValue.asInstanceOf[AnyRef]
      column.getClass.getMethod("getValues").invoke(column).asInstanceOf[JList[_]].size
    } else found.getRowsSize

  private def contexts = getSessionManager.getOperationManager.asInstanceOf[SparkSQLOperationManager].sessionToContexts

  /** Refuse one whose account or role was taken away since, and have a question about sensitive columns written down. */
  private def note(handle: SessionHandle, text: String): Unit = {
    val name = getSessionManager.getSession(handle).getUsername
    val user = Users.find(name).getOrElse(throw new HiveSQLException(s"there is no user $name any more"))
    if (Roots.seesClear(contexts.get(handle).asInstanceOf[SparkSession])) {
      val why = user.unmasked.getOrElse(throw new HiveSQLException("your role has changed: connect again"))
      Unmasked.ask(name, why, text)
    }
  }
}
