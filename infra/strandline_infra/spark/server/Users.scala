package strandline

import java.nio.file.{Files, Path, Paths}
import java.nio.file.attribute.FileTime
import java.security.MessageDigest
import java.util.HexFormat
import javax.crypto.SecretKeyFactory
import javax.crypto.spec.PBEKeySpec
import javax.security.sasl.AuthenticationException

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hive.service.auth.PasswdAuthenticationProvider
import org.apache.spark.sql.hive.thriftserver.LakeDoor

/** Who may ask, from a file that `strandline serve add-user` writes; a change applies at once. */
object Users {
  final case class User(salt: Array[Byte], hash: Array[Byte], rounds: Int, unmasked: Option[String])

  /** How long a wrong password is answered later, so that few are tried. */
  private val Pause = 500L
  private val Unknown = User(new Array[Byte](16), new Array[Byte](32), 300000, None)

  @volatile var file: Path = _
  @volatile private var read: (FileTime, Map[String, User]) = (null, Map.empty)
  /** Digests of passwords that were right, under a key that only this process knows: the slow hash is needed once a user.
    * By the user as it was read, so that a hash that was begun before a change is of no use after it.
    */
  private val known = new java.util.concurrent.ConcurrentHashMap[User, Array[Byte]]()
  private val key = { val drawn = new Array[Byte](32); new java.security.SecureRandom().nextBytes(drawn); drawn }

  /** One is held while a password is hashed, which one it is by the password: a pool of connections hashes its own once. */
  private val turns = Array.fill(256)(new Object)

  def readFrom(path: String): Unit = file = Paths.get(path)

  def find(name: String): Option[User] = {
    val written = Try(Files.getLastModifiedTime(file)).getOrElse(FileTime.fromMillis(0))
    if (written != read._1) {
      known.clear()
      read = (written, Try(parsed(new ObjectMapper().readTree(file.toFile))).getOrElse(Map.empty))
    }
    read._2.get(name)
  }

  def isRight(name: String, password: String): Boolean = {
    val quick = digest(name, password)
    isKnown(name, quick) || turns(quick(0) & 0xff).synchronized(isKnown(name, quick) || isHashed(name, password, quick))
  }

  private def isKnown(name: String, quick: Array[Byte]): Boolean =
    find(name).flatMap(user => Option(known.get(user))).exists(MessageDigest.isEqual(_, quick))

  private def isHashed(name: String, password: String, quick: Array[Byte]): Boolean = {
    val found = find(name)
    val user = found.getOrElse(Unknown)
    val spec = new PBEKeySpec(password.toCharArray, user.salt, user.rounds, user.hash.length * 8)
    val hash = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(spec).getEncoded
    val right = MessageDigest.isEqual(hash, user.hash) && found.nonEmpty
    if (right) known.put(user, quick)
    right
  }

  private def digest(name: String, password: String): Array[Byte] = {
    val sha = MessageDigest.getInstance("SHA-256")
    sha.update(key)
    sha.update(s"$name\u0000$password".getBytes("UTF-8"))
    sha.digest()
  }

  private def parsed(tree: JsonNode): Map[String, User] = tree.fields().asScala.map { each =>
    val user = each.getValue
    def bytes(field: String) = HexFormat.of().parseHex(user.get(field).asText)
    val why = Option(user.get("unmasked")).filter(_.isTextual).map(_.asText)
    each.getKey -> User(bytes("salt"), bytes("hash"), user.get("rounds").asInt, why)
  }.toMap

  /** Names that were refused, until they are asked for; few, because a stranger chooses them. */
  private val Kept = 100
  private val refused = java.util.concurrent.ConcurrentHashMap.newKeySet[String]()

  /** The next name that was refused; null where there is none. */
  def nextRefused(): String = {
    val left = refused.iterator()
    if (!left.hasNext) null else { val name = left.next(); left.remove(); name }
  }

  private[strandline] def refuse(name: String): Nothing = {
    if (name != null && name.length <= 64 && refused.size < Kept) refused.add(name)
    Thread.sleep(Pause)
    throw new AuthenticationException("no user has this name and this password")
  }
}

/** Hive's server makes one of these for each connection. */
class Users extends PasswdAuthenticationProvider {
  override def Authenticate(user: String, password: String): Unit = {
    LakeDoor.shown()
    if (user == null || password == null || password.isEmpty || !Users.isRight(user, password)) Users.refuse(user)
  }
}
