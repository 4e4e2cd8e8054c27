package strandline

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.azurebfs.services.KeyProvider

/** The key of an account of Azure out of the environment, where the clients in Python look for it too; it is in no configuration. */
class EnvironmentKey extends KeyProvider {
  override def getStorageAccountKey(account: String, configuration: Configuration): String =
    System.getenv("AZURE_STORAGE_ACCOUNT_KEY")
}
