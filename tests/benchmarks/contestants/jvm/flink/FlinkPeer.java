package peers;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.annotation.FunctionHint;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.functions.AggregateFunction;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.functions.TableFunction;
import org.apache.flink.types.Row;

/** The slice in Flink SQL, as a user would write it, with functions in Java where SQL has none: the strict parse and the percentile. */
public final class FlinkPeer {
  private static final String RECORD =
      "_partition INT, _offset BIGINT, _arrived_at TIMESTAMP_LTZ(3), _message_key BYTES, _payload BYTES";
  private static final String READING =
      "event_id STRING, device_id STRING, signal STRING, `value` DECIMAL(14,4), event_at TIMESTAMP_LTZ(3), firmware STRING, seq BIGINT";
  private static final String MEASURED = "device_id STRING, signal STRING, `value` DECIMAL(14,4), event_at TIMESTAMP_LTZ(3)";
  private static final String IDENTITY = "_partition INT, _offset BIGINT, _arrived_at TIMESTAMP_LTZ(3)";
  private static final String WINDOW =
      "device_id STRING, signal STRING, window_from TIMESTAMP(3), window_until TIMESTAMP(3), readings BIGINT,"
          + " min_value DECIMAL(14,4), max_value DECIMAL(14,4), avg_value DECIMAL(38,8), p95_value DECIMAL(14,4)";
  private static final String WINDOWS =
      "SELECT device_id, signal, window_start, window_end, COUNT(*), MIN(`value`), MAX(`value`),"
          + " CAST(AVG(CAST(`value` AS DECIMAL(20,8))) AS DECIMAL(38,8)), p95(`value`)"
          + " FROM TABLE(TUMBLE(TABLE %s, DESCRIPTOR(event_at), INTERVAL '10' MINUTES))"
          + " GROUP BY device_id, signal, window_start, window_end";

  public static void main(String[] arguments) throws Exception {
    Commands.serve(fields -> new FlinkPeer(fields).run(fields[0]));
  }

  private final Path root;
  private final String address;
  private final String topic;
  private final String variant;
  private final String campaigns;
  private final String counted;

  private FlinkPeer(String[] fields) {
    root = Path.of(fields[1]);
    address = fields[2];
    topic = fields[3];
    variant = fields[4];
    campaigns = fields[5];
    counted = fields[6];
  }

  private void run(String what) throws Exception {
    switch (what) {
      case "ingest" -> ingest(true, false);
      case "clean" -> ingest(false, true);
      case "windows" -> windows(files("readings", "silver/device_telemetry", MEASURED));
      case "whole" -> {
        ingest(true, true); // one job: the topic is read once
        windows(isIceberg() ? null : files("readings", "silver/device_telemetry", MEASURED));
      }
      case "yahoo" -> yahoo();
      default -> new Nexmark(root, address, topic, counted).run(what);
    }
  }

  /** One job from Kafka: the raw records, the readings with what is held of them, or both. */
  private void ingest(boolean raw, boolean clean) throws Exception {
    StreamTableEnvironment flink = environment(false);
    records(flink);
    StatementSet statements = flink.createStatementSet();
    if (raw) {
      String bronze = sink(flink, "bronze", "device_telemetry", RECORD);
      statements.addInsertSql("INSERT INTO " + bronze + " SELECT _partition, _offset, _arrived_at, _message_key, _payload FROM records");
    }
    if (clean) {
      flink.executeSql(
          "CREATE TEMPORARY VIEW judged AS SELECT _partition, _offset, _arrived_at, _message_key, _payload, met_at, r.*"
              + " FROM records, LATERAL TABLE(reading(_payload, _arrived_at))"
              + " AS r(event_id, device_id, signal, `value`, event_at, firmware, seq, reason)");
      String held = sink(flink, "quarantine", "device_telemetry", IDENTITY + ", reason STRING, _message_key BYTES, _payload BYTES");
      String silver = sink(flink, "silver", "device_telemetry", READING + ", " + IDENTITY);
      statements.addInsertSql(
          "INSERT INTO " + held + " SELECT _partition, _offset, _arrived_at, reason, _message_key, _payload FROM judged WHERE reason IS NOT NULL");
      statements.addInsertSql(
          "INSERT INTO " + silver + " SELECT event_id, device_id, signal, `value`, event_at, firmware, seq, _partition, _offset, _arrived_at"
              + " FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY event_id ORDER BY met_at) AS nth FROM judged WHERE reason IS NULL) WHERE nth = 1");
    }
    statements.execute().await();
  }

  /** A batch over the readings: a stream over files would meet them out of order. */
  private void windows(String source) throws Exception {
    StreamTableEnvironment flink = environment(true);
    String from = source == null ? "ice.silver.device_telemetry" : "readings";
    if (source != null) flink.executeSql(source);
    String gold = sink(flink, "gold", "device_signal_10m", WINDOW);
    flink.executeSql("INSERT INTO " + gold + " " + String.format(WINDOWS, from)).await();
  }

  private void yahoo() throws Exception {
    StreamTableEnvironment flink = environment(false);
    flink.createTemporarySystemFunction("campaign_of", new CampaignOf(campaigns));
    flink.executeSql(
        "CREATE TEMPORARY TABLE ads (user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, event_time STRING,"
            + " ip_address STRING, event_at AS TO_TIMESTAMP_LTZ(CAST(event_time AS BIGINT), 3), WATERMARK FOR event_at AS event_at - INTERVAL '60' SECOND)"
            + " WITH (" + kafka() + ", 'format' = 'json', 'json.ignore-parse-errors' = 'true')");
    flink.executeSql("CREATE TEMPORARY VIEW ad_views AS SELECT campaign_of(ad_id) AS campaign_id, event_at FROM ads WHERE event_type = 'view'");
    String gold = sink(flink, "gold", "ad_views_10s", "campaign_id STRING, window_from TIMESTAMP(3), window_until TIMESTAMP(3), `views` BIGINT");
    flink
        .executeSql(
            "INSERT INTO " + gold + " SELECT campaign_id, window_start, window_end, COUNT(*)"
                + " FROM TABLE(TUMBLE(TABLE ad_views, DESCRIPTOR(event_at), INTERVAL '10' SECONDS)) GROUP BY campaign_id, window_start, window_end")
        .await();
  }

  private boolean isIceberg() {
    return variant.equals("iceberg");
  }

  private StreamTableEnvironment environment(boolean batch) throws IOException {
    Configuration settings = new Configuration();
    Map<String, String> chosen = new HashMap<>();
    chosen.put("parallelism.default", "2");
    chosen.put("taskmanager.numberOfTaskSlots", "2");
    chosen.put("taskmanager.memory.managed.size", "512m");
    chosen.put("taskmanager.memory.network.max", "128m");
    chosen.put("rest.bind-address", "127.0.0.1");
    chosen.put("pipeline.object-reuse", "true");
    chosen.put("table.local-time-zone", "UTC");
    if (!batch) {
      chosen.put("execution.checkpointing.interval", "10 s");
      chosen.put("execution.checkpointing.mode", "EXACTLY_ONCE");
      chosen.put("execution.checkpointing.dir", root.resolve("_checkpoints").toUri().toString());
      chosen.put("execution.checkpointing.incremental", "true");
      chosen.put("state.backend.type", variant.equals("rocksdb") ? "rocksdb" : "hashmap");
      chosen.put("table.exec.state.ttl", "2 h");
      // Without mini-batches: with them 2.3 plans the first of several copies as a rank, which a sink that appends cannot take.
    }
    chosen.forEach(settings::setString);
    EnvironmentSettings.Builder mode = EnvironmentSettings.newInstance().withConfiguration(settings);
    StreamTableEnvironment flink =
        StreamTableEnvironment.create(
            StreamExecutionEnvironment.getExecutionEnvironment(settings), (batch ? mode.inBatchMode() : mode).build());
    flink.createTemporarySystemFunction("reading", Parse.class);
    flink.createTemporarySystemFunction("p95", P95.class);
    if (isIceberg()) flink.executeSql("CREATE CATALOG ice WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '" + root.toUri() + "')");
    return flink;
  }

  private String kafka() {
    return "'connector' = 'kafka', 'topic' = '" + topic + "', 'properties.bootstrap.servers' = '" + address + "', 'properties.group.id' = 'flink-"
        + root.getFileName() + "', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'properties.isolation.level' = 'read_committed'";
  }

  private void records(StreamTableEnvironment flink) {
    flink.executeSql(
        "CREATE TEMPORARY TABLE records (_message_key BYTES, _payload BYTES, _partition INT METADATA FROM 'partition' VIRTUAL,"
            + " _offset BIGINT METADATA FROM 'offset' VIRTUAL, _arrived_at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, met_at AS PROCTIME())"
            + " WITH (" + kafka() + ", 'key.format' = 'raw', 'key.fields' = '_message_key', 'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY')");
  }

  private String files(String name, String folder, String columns) {
    return "CREATE TEMPORARY TABLE " + name + " (" + columns + ") WITH ('connector' = 'filesystem', 'path' = '" + root.resolve(folder).toUri()
        + "', 'format' = 'parquet', 'parquet.utc-timezone' = 'true', 'parquet.compression' = 'ZSTD')";
  }

  /** Make a table of the variant's format, and return how statements name it. */
  private String sink(StreamTableEnvironment flink, String layer, String name, String columns) {
    if (!isIceberg()) {
      flink.executeSql(files(layer + "_" + name, layer + "/" + name, columns));
      return layer + "_" + name;
    }
    flink.executeSql("CREATE DATABASE IF NOT EXISTS ice." + layer);
    String table = "ice." + layer + "." + name;
    flink.executeSql(
        "CREATE TABLE " + table + " (" + columns.replace("(3)", "(6)")
            + ") WITH ('format-version' = '2', 'write.parquet.compression-codec' = 'zstd', 'write.distribution-mode' = 'none')");
    return table;
  }

  /** The strict parse: a payload becomes a reading, or the reason why it is none. */
  @FunctionHint(
      output =
          @DataTypeHint(
              "ROW<event_id STRING, device_id STRING, signal STRING, `value` DECIMAL(14,4), event_at TIMESTAMP_LTZ(3), firmware STRING, seq BIGINT, reason STRING>"))
  public static final class Parse extends TableFunction<Row> {
    private transient StrictReading found;

    public void eval(byte[] payload, Instant arrivedAt) {
      if (found == null) found = new StrictReading();
      found.read(payload, arrivedAt.toEpochMilli());
      collect(
          found.reason == null
              ? Row.of(found.eventId, found.deviceId, found.signal, found.value, found.eventAt, found.firmware, found.seq, null)
              : Row.of(null, null, null, null, null, null, null, found.reason));
    }
  }

  /** The campaign of an advertisement, from a file that each task reads once. */
  public static final class CampaignOf extends ScalarFunction {
    private final String file;
    private transient Map<String, String> campaigns;

    public CampaignOf(String file) {
      this.file = file;
    }

    @Override
    public void open(FunctionContext context) throws IOException {
      campaigns = new HashMap<>();
      for (String line : Files.readAllLines(Path.of(file))) {
        String[] fields = line.split(",");
        campaigns.put(fields[0], fields[1]);
      }
    }

    public String eval(String ad) {
      return campaigns.get(ad);
    }
  }

  /** The values of a window, of which one is the answer. */
  public static final class Values {
    public long[] values = new long[8];
    public int count = 0;
  }

  /** The smallest value that 95 of 100 do not exceed. */
  @FunctionHint(output = @DataTypeHint("DECIMAL(14,4)"))
  public static final class P95 extends AggregateFunction<BigDecimal, Values> {
    @Override
    public Values createAccumulator() {
      return new Values();
    }

    public void accumulate(Values into, @DataTypeHint("DECIMAL(14,4)") BigDecimal value) {
      if (into.count == into.values.length) into.values = Arrays.copyOf(into.values, 2 * into.count);
      into.values[into.count++] = value.setScale(4).unscaledValue().longValue();
    }

    public void merge(Values into, Iterable<Values> others) {
      for (Values other : others) {
        long[] all = Arrays.copyOf(into.values, into.count + Math.max(other.count, 8));
        System.arraycopy(other.values, 0, all, into.count, other.count);
        into.values = all;
        into.count += other.count;
      }
    }

    @Override
    public BigDecimal getValue(Values from) {
      if (from.count == 0) return null;
      long[] sorted = Arrays.copyOf(from.values, from.count);
      Arrays.sort(sorted);
      return BigDecimal.valueOf(sorted[(from.count * 95 + 99) / 100 - 1], 4);
    }
  }
}
