package strandline

import org.apache.hadoop.conf.{Configurable, Configuration}
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import software.amazon.awssdk.core.SdkRequest
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.services.s3.model._

/** Counts each request to S3 where it leaves the JVM, one that is sent again as well. Hadoop gives each of its clients one of these. */
class StoreRequests extends ExecutionInterceptor with Configurable {
  private var conf: Configuration = _

  /** Hear from Hadoop in which lake the first requests will be. */
  override def setConf(found: Configuration): Unit = {
    conf = found
    Option(found.get("strandline.lake")).foreach(StoreRequests.watch)
  }

  override def getConf: Configuration = conf

  override def beforeTransmission(context: Context.BeforeTransmission, attributes: ExecutionAttributes): Unit =
    StoreRequests.count(context.request, context.httpRequest.method.name)
}

/** The counts of this JVM since they were taken last: by what is asked, by lake, and by the two folders at its top that the key is in.
  *
  * A request takes milliseconds, so one lock for all is no wait.
  */
object StoreRequests {
  private val MOST = 10000 // folders that are counted each for itself: it is bounded, also where the counts are never taken
  private val LAKES = 100
  private var lakes = Vector.empty[String]
  private var counted = mutable.HashMap.empty[String, Long]

  /** Count the folders of a lake each for itself; it is named by its bucket and its key. Of what lies in none the number is known. */
  def watch(lake: String): Unit = synchronized {
    if (!lakes.contains(lake)) lakes = (lakes :+ lake).takeRight(LAKES)
  }

  /** Return what was counted since the last time, a line each: what is asked, the lake, the folders, how often. */
  def take(): String = synchronized {
    val found = counted
    counted = mutable.HashMap.empty
    found.map { case (of, times) => s"$of\t$times" }.mkString("\n")
  }

  private def count(request: SdkRequest, method: String): Unit = {
    val (asked, key) = request match {
      case each: ListObjectsV2Request => ("LIST", each.prefix)
      case each: ListObjectsRequest => ("LIST", each.prefix)
      case each: ListMultipartUploadsRequest => ("LIST", each.prefix)
      // All are of one folder, as the callers remove one.
      case each: DeleteObjectsRequest => ("DELETE", each.delete.objects.asScala.headOption.fold("")(_.key))
      case each: CopyObjectRequest => ("COPY", each.destinationKey)
      case each: UploadPartCopyRequest => ("COPY", each.destinationKey)
      case _ => (method, field(request, "Key"))
    }
    val bucket = request match {
      case each: CopyObjectRequest => each.destinationBucket
      case each: UploadPartCopyRequest => each.destinationBucket
      case _ => field(request, "Bucket")
    }
    add(asked, s"$bucket/${Option(key).getOrElse("")}")
  }

  private def add(asked: String, address: String): Unit = synchronized {
    val of = lakes.filter(lake => address.startsWith(lake + "/")).maxByOption(_.length) match {
      case Some(lake) => s"$asked\t$lake\t${address.drop(lake.length + 1).split('/').take(2).mkString("/")}"
      case None => s"$asked\t\t"
    }
    val known = if (counted.contains(of) || counted.size < MOST) of else s"$asked\t\t"
    counted(known) = counted.getOrElse(known, 0L) + 1
  }

  private def field(request: SdkRequest, name: String): String =
    request.getValueForField(name, classOf[String]).orElse("")
}
