package peers;

import java.net.URI;
import java.nio.file.Path;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * The queries of NEXMark in Flink SQL, each a job over the topics, on a cluster that stays as a session's does.
 *
 * <p>An answer whose rows are final is Parquet files. One whose rows change is a topic with the last row of each key, because a sink of
 * files takes no changes.
 */
final class Nexmark {
  private static final int SLOTS = 2;
  private static final String DISORDER = "4"; // seconds that events may be out of order, as our tables declare
  private static final String BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, bid_at TIMESTAMP_LTZ(3), extra STRING";
  private static final String BID_NAMES = "auction, bidder, price, channel, url, bid_at, extra";
  private static final String PERSON = "id BIGINT, name STRING, city STRING, state STRING, joined_at TIMESTAMP_LTZ(3)";
  private static final String AUCTION =
      "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, opened_at TIMESTAMP_LTZ(3),"
          + " expires_at TIMESTAMP_LTZ(3), seller BIGINT, category BIGINT, extra STRING";

  /** No auction is open for more than a minute, so what waits for a bid is bounded, as in our table of winners. */
  private static final String WHILE_OPEN =
      "a.id = b.auction AND b.bid_at BETWEEN a.opened_at AND a.expires_at AND b.bid_at <= a.opened_at + INTERVAL '1' MINUTE";

  private static final String WON =
      "SELECT id, item_name, description, initial_bid, reserve, CAST(opened_at AS TIMESTAMP(3)) AS opened_at,"
          + " expires_at, seller, category, extra, bidder, price, CAST(bid_at AS TIMESTAMP(3)) AS bid_at, bid_extra"
          + " FROM (SELECT a.*, b.bidder, b.price, b.bid_at, b.extra AS bid_extra,"
          + " ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.bid_at) AS nth FROM auction AS a JOIN bid AS b ON "
          + WHILE_OPEN
          + ") WHERE nth = 1";
  private static final String COUNTED =
      "(SELECT auction, COUNT(*) AS bids, window_start, window_end"
          + " FROM TABLE(HOP(TABLE bid, DESCRIPTOR(bid_at), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
          + " GROUP BY auction, window_start, window_end)";

  /** A query: the columns of its answer, its key where rows of the answer change, and its text. */
  private record Query(String columns, String key, String text) {}

  private static final Map<String, Query> QUERIES =
      Map.ofEntries(
          Map.entry("q0", new Query(BID, "", "SELECT " + BID_NAMES + " FROM bid")),
          Map.entry(
              "q1",
              new Query(
                  "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), bid_at TIMESTAMP_LTZ(3), extra STRING",
                  "",
                  "SELECT auction, bidder, CAST(price * 0.908 AS DECIMAL(23, 3)), bid_at, extra FROM bid")),
          Map.entry("q2", new Query("auction BIGINT, price BIGINT", "", "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0")),
          Map.entry(
              "q3",
              new Query(
                  "name STRING, city STRING, state STRING, id BIGINT",
                  "",
                  "SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id"
                      + " WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')")),
          Map.entry(
              "q4",
              new Query(
                  "category BIGINT, average BIGINT",
                  "category",
                  "SELECT category, AVG(final) FROM (SELECT a.id, a.category, MAX(b.price) AS final FROM auction AS a JOIN bid AS b ON "
                      + WHILE_OPEN
                      + " GROUP BY a.id, a.category) GROUP BY category")),
          Map.entry(
              "q5",
              new Query(
                  "auction BIGINT, bids BIGINT, window_from TIMESTAMP(3)",
                  "",
                  "SELECT c.auction, c.bids, c.window_start FROM "
                      + COUNTED
                      + " AS c JOIN (SELECT MAX(bids) AS most, window_start, window_end FROM "
                      + COUNTED
                      + " GROUP BY window_start, window_end) AS m"
                      + " ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.bids >= m.most")),
          Map.entry(
              "q6",
              new Query(
                  "seller BIGINT, id BIGINT, average BIGINT",
                  "id",
                  "SELECT seller, id, AVG(price) OVER (PARTITION BY seller ORDER BY expires_at ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM ("
                      + WON
                      + ") ON CONFLICT DO DEDUPLICATE")),
          Map.entry(
              "q7",
              new Query(
                  "auction BIGINT, bidder BIGINT, price BIGINT, bid_at TIMESTAMP_LTZ(3), extra STRING",
                  "",
                  "SELECT b.auction, b.bidder, b.price, CAST(b.bid_at AS TIMESTAMP(3)), b.extra FROM bid AS b"
                      + " JOIN (SELECT MAX(price) AS highest, window_time AS last_at"
                      + " FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bid_at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time) AS h"
                      + " ON b.price = h.highest AND b.bid_at BETWEEN h.last_at - INTERVAL '9.999' SECOND AND h.last_at + INTERVAL '0.001' SECOND")),
          Map.entry(
              "q8",
              new Query(
                  "id BIGINT, name STRING, window_from TIMESTAMP(3)",
                  "",
                  "SELECT p.id, p.name, p.window_start FROM (SELECT id, name, window_start, window_end"
                      + " FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(joined_at), INTERVAL '10' SECOND)) GROUP BY id, name, window_start, window_end) AS p"
                      + " JOIN (SELECT seller, window_start, window_end FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(opened_at), INTERVAL '10' SECOND))"
                      + " GROUP BY seller, window_start, window_end) AS a"
                      + " ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end")),
          Map.entry(
              "q9",
              new Query(
                  AUCTION.replace("opened_at TIMESTAMP_LTZ(3)", "opened_at TIMESTAMP(3)")
                      + ", bidder BIGINT, price BIGINT, bid_at TIMESTAMP(3), bid_extra STRING",
                  "id",
                  WON)),
          // Sessions that touch are one in Flink: a gap of ten seconds would join what the query parts, so it is a millisecond shorter.
          Map.entry(
              "q11",
              new Query(
                  "bidder BIGINT, bids BIGINT, session_from TIMESTAMP(3), session_until TIMESTAMP(3)",
                  "",
                  "SELECT bidder, COUNT(*), window_start, window_end + INTERVAL '0.001' SECOND"
                      + " FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(bid_at), INTERVAL '9.999' SECOND))"
                      + " GROUP BY bidder, window_start, window_end")),
          Map.entry(
              "q12",
              new Query(
                  "bidder BIGINT, bids BIGINT, window_from TIMESTAMP(3)",
                  "",
                  "SELECT bidder, COUNT(*), window_start FROM TABLE(TUMBLE(TABLE arrived, DESCRIPTOR(arrived_at), INTERVAL '10' SECOND))"
                      + " GROUP BY bidder, window_start, window_end")),
          Map.entry(
              "q18",
              new Query(
                  BID,
                  "bidder, auction",
                  "SELECT "
                      + BID_NAMES
                      + " FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY bid_at DESC) AS nth FROM bid) WHERE nth = 1")),
          Map.entry(
              "q19",
              new Query(
                  "auction BIGINT, place BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, bid_at TIMESTAMP_LTZ(3), extra STRING",
                  "auction, place",
                  "SELECT auction, nth, bidder, price, channel, url, bid_at, extra"
                      + " FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bid_at) AS nth FROM bid) WHERE nth <= 10")));

  private static MiniCluster session;

  private final Path root;
  private final String address;
  private final String ends;
  private final String answer;

  Nexmark(Path root, String address, String ends, String answer) {
    this.root = root;
    this.address = address;
    this.ends = ends;
    this.answer = answer;
  }

  void run(String name) throws Exception {
    Query query = QUERIES.get(name);
    if (query == null) throw new IllegalArgumentException(name);
    StreamTableEnvironment flink = environment();
    flink.executeSql(topic("person", PERSON, "persons", "joined_at", DISORDER));
    flink.executeSql(topic("auction", AUCTION, "auctions", "opened_at", DISORDER));
    flink.executeSql(topic("bid", BID, "bids", "bid_at", DISORDER));
    String arrival = ", arrived_at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL";
    flink.executeSql(topic("arrived", BID + arrival, "bids", "arrived_at", "1"));
    flink.executeSql(query.key.isEmpty() ? files(query) : changes(query));
    TableResult running = flink.executeSql("INSERT INTO answer " + query.text);
    // Of the cluster itself: a client asks by REST, less and less often.
    session.requestJobResult(running.getJobClient().orElseThrow().getJobID()).get().toJobExecutionResult(getClass().getClassLoader());
  }

  private StreamTableEnvironment environment() throws Exception {
    URI at = started();
    Configuration settings = new Configuration();
    Map.ofEntries(
            Map.entry("execution.target", "remote"),
            Map.entry("rest.address", at.getHost()),
            Map.entry("rest.port", Integer.toString(at.getPort())),
            Map.entry("parallelism.default", Integer.toString(SLOTS)),
            Map.entry("pipeline.object-reuse", "true"),
            Map.entry("table.local-time-zone", "UTC"),
            Map.entry("execution.checkpointing.interval", "10 s"),
            Map.entry("execution.checkpointing.mode", "EXACTLY_ONCE"),
            Map.entry("execution.checkpointing.dir", root.resolve("_checkpoints").toUri().toString()),
            Map.entry("state.backend.type", "hashmap"),
            Map.entry("table.exec.mini-batch.enabled", "true"),
            Map.entry("table.exec.mini-batch.allow-latency", "1 s"),
            Map.entry("table.exec.mini-batch.size", "20000"))
        .forEach(settings::setString);
    return StreamTableEnvironment.create(new StreamExecutionEnvironment(settings));
  }

  /** Start the cluster once, and return where it listens. */
  private static URI started() throws Exception {
    if (session == null) {
      Configuration own = new Configuration();
      own.setString("rest.address", "127.0.0.1");
      own.setString("rest.bind-address", "127.0.0.1");
      own.setString("rest.bind-port", "0");
      own.setString("taskmanager.memory.network.max", "128m");
      own.setString("taskmanager.memory.managed.size", "64m");
      MiniCluster made =
          new MiniCluster(
              new MiniClusterConfiguration.Builder().setConfiguration(own).setNumTaskManagers(1).setNumSlotsPerTaskManager(SLOTS).build());
      made.start();
      session = made;
    }
    return session.getRestAddress().get();
  }

  private String topic(String table, String columns, String of, String time, String seconds) {
    return "CREATE TEMPORARY TABLE " + table + " (" + columns + ", WATERMARK FOR " + time + " AS " + time + " - INTERVAL '" + seconds + "' SECOND)"
        + with("connector", "kafka", "topic", "nexmark-" + of + ends, "properties.bootstrap.servers", address,
            "properties.group.id", "flink-" + root.getFileName(), "properties.isolation.level", "read_committed",
            "scan.startup.mode", "earliest-offset", "scan.bounded.mode", "latest-offset", "format", "json", "json.timestamp-format.standard", "ISO-8601");
  }

  private String files(Query query) {
    return "CREATE TEMPORARY TABLE answer (" + query.columns + ")"
        + with("connector", "filesystem", "path", root.resolve("answer").toUri().toString(), "format", "parquet",
            "parquet.utc-timezone", "true", "parquet.compression", "ZSTD");
  }

  private String changes(Query query) {
    return "CREATE TEMPORARY TABLE answer (" + query.columns + ", PRIMARY KEY (" + query.key + ") NOT ENFORCED)"
        + with("connector", "upsert-kafka", "topic", answer, "properties.bootstrap.servers", address, "properties.transaction.timeout.ms", "600000",
            "properties.linger.ms", "20", "properties.batch.size", "262144",
            "key.format", "json", "key.json.timestamp-format.standard", "ISO-8601", "value.format", "json", "value.json.timestamp-format.standard", "ISO-8601",
            "sink.delivery-guarantee", "exactly-once", "sink.transactional-id-prefix", answer,
            "sink.buffer-flush.max-rows", "100000", "sink.buffer-flush.interval", "2 s");
  }

  private static String with(String... pairs) {
    StringBuilder text = new StringBuilder(" WITH (");
    for (int i = 0; i < pairs.length; i += 2) text.append(i == 0 ? "'" : ", '").append(pairs[i]).append("' = '").append(pairs[i + 1]).append("'");
    return text.append(")").toString();
  }
}
