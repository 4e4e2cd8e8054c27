package strandline

import com.google.cloud.hadoop.util.AccessTokenProvider
import com.google.cloud.hadoop.util.AccessTokenProvider.{AccessToken, AccessTokenType}
import java.time.Instant
import org.apache.hadoop.conf.Configuration

/** A token for Google Cloud Storage out of the environment, where the clients in Python look for it too; it is in no configuration. */
class EnvironmentToken extends AccessTokenProvider {
  private var configuration: Configuration = _

  override def getAccessToken(): AccessToken =
    new AccessToken(System.getenv("GOOGLE_BEARER_TOKEN"), Instant.now.plusSeconds(3600))

  override def refresh(): Unit = ()

  override def setConf(given: Configuration): Unit = configuration = given

  override def getConf: Configuration = configuration
}
