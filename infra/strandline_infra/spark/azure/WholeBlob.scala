package org.apache.hadoop.fs.azurebfs.services

import java.util.Base64
import org.apache.hadoop.fs.azurebfs.utils.TracingContext

/** Azure's request to write a blob whole, for which Hadoop's client has no method: its own way to create a file writes an empty blob
  * first, which every reader sees, and the content in later requests. A driver that ended between them left an empty commit for ever.
  *
  * The requests are made by that client, so that keys, tokens and new attempts are its own; what it makes them with is open to this
  * package alone.
  */
object WholeBlob {

  /** Write a blob by one request.
    *
    * @param mustBeNew
    *   whether the server refuses it where there is one.
    */
  def put(client: AbfsClient, path: String, content: Array[Byte], mustBeNew: Boolean, context: TracingContext): Unit = {
    val headers = client.createDefaultHeaders()
    headers.add(new AbfsHttpHeader("x-ms-blob-type", "BlockBlob"))
    if (mustBeNew) headers.add(new AbfsHttpHeader("If-None-Match", "*"))
    run(client, AbfsRestOperationType.PutBlob, path, Map(), headers, content, content.length, context)
  }

  /** Upload a part of a blob, which readers do not see. */
  def stage(client: AbfsClient, path: String, number: Int, content: Array[Byte], length: Int, context: TracingContext): Unit =
    run(
      client,
      AbfsRestOperationType.PutBlock,
      path,
      Map("comp" -> "block", "blockid" -> named(number)),
      client.createDefaultHeaders(),
      content,
      length,
      context)

  /** Let a blob consist of the parts that were uploaded, also in the place of another. */
  def finish(client: AbfsClient, path: String, parts: Int, context: TracingContext): Unit = {
    val listed = (0 until parts).map(number => s"<Latest>${named(number)}</Latest>").mkString
    val body = s"""<?xml version="1.0" encoding="utf-8"?><BlockList>$listed</BlockList>""".getBytes("UTF-8")
    val headers = client.createDefaultHeaders()
    headers.add(new AbfsHttpHeader("Content-Type", "application/xml"))
    run(client, AbfsRestOperationType.PutBlockList, path, Map("comp" -> "blocklist"), headers, body, body.length, context)
  }

  /** Names of parts are of one length, as Azure has it. */
  private def named(number: Int): String = Base64.getEncoder.encodeToString(f"part-$number%08d".getBytes("UTF-8"))

  private def run(
      client: AbfsClient,
      kind: AbfsRestOperationType,
      path: String,
      asks: Map[String, String],
      headers: java.util.List[AbfsHttpHeader],
      content: Array[Byte],
      length: Int,
      context: TracingContext): Unit = {
    headers.add(new AbfsHttpHeader("Content-Length", length.toString))
    val query = client.createDefaultUriQueryBuilder()
    asks.foreach { case (name, value) => query.addQuery(name, value) }
    val sas = client.appendSASTokenToQuery(path, "write", query)
    val url = client.createRequestUrl(path, query.toString)
    client.getAbfsRestOperation(kind, "PUT", url, headers, content, 0, length, sas).execute(context)
  }
}
