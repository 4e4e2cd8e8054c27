package strandline

import java.io.{ByteArrayInputStream, FileInputStream}
import java.nio.file.{Files, Paths}
import java.nio.file.attribute.PosixFilePermissions
import java.security.{KeyFactory, KeyStore}
import java.security.cert.{Certificate, CertificateFactory}
import java.security.spec.PKCS8EncodedKeySpec
import java.util.Base64

import scala.jdk.CollectionConverters._
import scala.util.Try

/** Hive's server takes a key store; most people have two files. */
object Tls {
  private val Key = "(?s).*-----BEGIN PRIVATE KEY-----(.*?)-----END PRIVATE KEY-----.*".r

  /** Write a key store of a certificate, with its chain, and of its key. */
  def store(certificate: String, key: String, to: String, password: String): Unit = {
    val stream = new FileInputStream(certificate)
    val chain: Array[Certificate] =
      try CertificateFactory.getInstance("X.509").generateCertificates(stream).asScala.toArray[Certificate]
      finally stream.close()
    if (chain.isEmpty) throw new IllegalArgumentException(s"$certificate has no certificate")
    val encoded = Files.readString(Paths.get(key)) match {
      case Key(body) => new PKCS8EncodedKeySpec(Base64.getMimeDecoder.decode(body))
      case _ => throw new IllegalArgumentException(s"$key has no BEGIN PRIVATE KEY (PKCS#8, without a password)")
    }
    val kept = Seq("RSA", "EC", "Ed25519").flatMap(each => Try(KeyFactory.getInstance(each).generatePrivate(encoded)).toOption)
    val store = KeyStore.getInstance("PKCS12")
    store.load(null, null)
    store.setKeyEntry("server", kept.headOption.getOrElse(throw new IllegalArgumentException(s"$key has a key of an unknown kind")),
      password.toCharArray, chain)
    val target = Paths.get(to)
    Files.deleteIfExists(target)
    Files.createFile(target, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")))
    val out = Files.newOutputStream(target)
    try store.store(out, password.toCharArray) finally out.close()
  }
}
