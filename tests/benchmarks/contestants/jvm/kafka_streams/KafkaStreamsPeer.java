package peers;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/** The Yahoo streaming benchmark with Kafka Streams: counts in RocksDB, each change a record of a topic. */
public final class KafkaStreamsPeer {
  private static final byte[] NOTHING = new byte[0];
  /** Two tasks of a topic that is already full run apart by its whole length; with a grace of a minute views were lost. */
  private static final Duration GRACE = Duration.ofHours(1);

  private static final JsonFactory JSON = new JsonFactory();

  public static void main(String[] arguments) throws Exception {
    Commands.serve(fields -> new KafkaStreamsPeer().run(Path.of(fields[1]), fields[2], fields[3], fields[6], fields[5]));
  }

  private final AtomicLong read = new AtomicLong();
  private final AtomicLong passedOn = new AtomicLong();
  private final AtomicLong counted = new AtomicLong();

  private void run(Path root, String address, String topic, String counts, String campaigns) throws Exception {
    Properties settings = new Properties();
    settings.put("application.id", counts);
    settings.put("bootstrap.servers", address);
    settings.put("num.stream.threads", "2");
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("commit.interval.ms", "1000");
    settings.put("state.dir", root.resolve("_state").toString());
    settings.put("auto.offset.reset", "earliest");
    settings.put("statestore.cache.max.bytes", String.valueOf(64 << 20));
    settings.put("producer.linger.ms", "20");
    settings.put("producer.batch.size", "262144");
    settings.put("producer.compression.type", "lz4");
    settings.put("replication.factor", "1");
    long events = prepared(address, topic, counts);
    StreamsBuilder builder = new StreamsBuilder();
    views(builder, topic, counts, campaigns);
    try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
      streams.start();
      // A view counts as counted when it is in the state; closing commits it.
      while (read.get() < events || counted.get() < passedOn.get()) Thread.sleep(20);
    }
  }

  /** Make the topic of counts, and return how many events there are. */
  private static long prepared(String address, String topic, String counts) throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
      admin.createTopics(List.of(new NewTopic(counts, 2, (short) 1))).all().get();
      Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
      admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()
          .forEach(each -> ends.put(new TopicPartition(topic, each.partition()), OffsetSpec.latest()));
      return admin.listOffsets(ends).all().get().values().stream().mapToLong(each -> each.offset()).sum();
    }
  }

  private void views(StreamsBuilder builder, String topic, String counts, String file) throws IOException {
    Map<String, String> campaigns = new HashMap<>();
    for (String line : Files.readAllLines(Path.of(file))) {
      String[] fields = line.split(",");
      campaigns.put(fields[0], fields[1]);
    }
    builder
        .stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()).withTimestampExtractor((record, before) -> record.timestamp()))
        .flatMap((key, event) -> seen(event, campaigns))
        .groupByKey(Grouped.with("by-campaign", Serdes.String(), Serdes.ByteArray()))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), GRACE))
        .aggregate(
            () -> 0L,
            (campaign, event, count) -> {
              counted.incrementAndGet();
              return count + 1;
            },
            Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
        .toStream()
        .map((window, count) -> new KeyValue<>(window.key() + "@" + window.window().start(), count))
        .to(counts, Produced.with(Serdes.String(), Serdes.Long()));
  }

  private Iterable<KeyValue<String, byte[]>> seen(byte[] event, Map<String, String> campaigns) {
    String campaign = viewed(event, campaigns);
    if (campaign != null) passedOn.incrementAndGet();
    read.incrementAndGet(); // after it was passed on, so that nothing looks done between the two
    return campaign == null ? List.of() : List.of(new KeyValue<>(campaign, NOTHING));
  }

  /** Return the campaign of a view, or null. */
  private static String viewed(byte[] event, Map<String, String> campaigns) {
    String ad = null;
    String kind = null;
    try (JsonParser json = JSON.createParser(event)) {
      json.nextToken();
      for (JsonToken token = json.nextToken(); token == JsonToken.FIELD_NAME; token = json.nextToken()) {
        String name = json.currentName();
        json.nextToken();
        if (name.equals("ad_id")) ad = json.getText();
        else if (name.equals("event_type")) kind = json.getText();
        else json.skipChildren();
      }
    } catch (IOException e) {
      return null;
    }
    return "view".equals(kind) ? campaigns.get(ad) : null;
  }
}
