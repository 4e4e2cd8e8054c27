package peers;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.DateTimeException;
import java.time.Instant;

/** A payload as a typed reading, or the reason why it is none, in one pass: what a strict job on the JVM does without Spark. */
public final class StrictReading {
  private static final JsonFactory JSON = new JsonFactory();
  private static final long LATE_MS = 3_600_000L;
  private static final long EARLY_MS = 300_000L;

  public String eventId;
  public String deviceId;
  public String signal;
  public String firmware;
  public BigDecimal value;
  public Instant eventAt;
  public Long seq;
  public String reason;
  private boolean wrong;

  public void read(byte[] payload, long arrivedMs) {
    eventId = deviceId = signal = firmware = reason = null;
    value = null;
    eventAt = null;
    seq = null;
    wrong = false;
    if (payload == null || payload.length == 0 || payload[0] == (byte) 0xEF) { // Jackson passes over a byte order mark
      reason = "malformed";
      return;
    }
    try (JsonParser json = JSON.createParser(payload)) {
      if (json.nextToken() != JsonToken.START_OBJECT) {
        reason = "malformed";
        return;
      }
      while (json.nextToken() != JsonToken.END_OBJECT) {
        String name = json.currentName();
        field(name, json, json.nextToken());
      }
      if (json.nextToken() != null) {
        reason = "malformed";
        return;
      }
    } catch (IOException e) {
      reason = "malformed";
      return;
    }
    reason = wrong ? "wrong_type" : fault(arrivedMs);
  }

  private void field(String name, JsonParser json, JsonToken token) throws IOException {
    switch (name) {
      case "event_id" -> eventId = text(json, token);
      case "device_id" -> deviceId = text(json, token);
      case "signal" -> signal = text(json, token);
      case "value" -> value(json, token);
      case "event_at" -> moment(json, token);
      case "meta" -> meta(json, token);
      default -> json.skipChildren();
    }
  }

  private void value(JsonParser json, JsonToken token) throws IOException {
    if (token == JsonToken.VALUE_NUMBER_FLOAT || token == JsonToken.VALUE_NUMBER_INT) {
      BigDecimal found = json.getDecimalValue();
      if (found.stripTrailingZeros().scale() > 4 || found.precision() - found.scale() > 10) wrong = true;
      else value = found.setScale(4);
    } else if (token != JsonToken.VALUE_NULL) {
      refuse(json);
    }
  }

  private void moment(JsonParser json, JsonToken token) throws IOException {
    if (token == JsonToken.VALUE_STRING) {
      try {
        eventAt = Instant.parse(json.getText());
      } catch (DateTimeException e) {
        wrong = true;
      }
    } else if (token != JsonToken.VALUE_NULL) {
      refuse(json);
    }
  }

  private void meta(JsonParser json, JsonToken token) throws IOException {
    if (token == JsonToken.VALUE_NULL) return;
    if (token != JsonToken.START_OBJECT) {
      refuse(json);
      return;
    }
    while (json.nextToken() != JsonToken.END_OBJECT) {
      String name = json.currentName();
      JsonToken next = json.nextToken();
      if (name.equals("firmware")) firmware = text(json, next);
      else if (!name.equals("seq")) json.skipChildren();
      else if (next == JsonToken.VALUE_NUMBER_INT) seq = json.getLongValue();
      else if (next != JsonToken.VALUE_NULL) refuse(json);
    }
  }

  private String text(JsonParser json, JsonToken token) throws IOException {
    if (token == JsonToken.VALUE_STRING) return json.getText();
    if (token != JsonToken.VALUE_NULL) refuse(json);
    return null;
  }

  private void refuse(JsonParser json) throws IOException {
    wrong = true;
    json.skipChildren();
  }

  private String fault(long arrivedMs) {
    if (eventId == null) return "missing:event_id";
    if (deviceId == null) return "missing:device_id";
    if (signal == null) return "missing:signal";
    if (value == null) return "missing:value";
    if (eventAt == null) return "missing:event_at";
    if (!isPlausible()) return "implausible:value";
    if (eventAt.toEpochMilli() < arrivedMs - LATE_MS) return "late";
    return eventAt.toEpochMilli() > arrivedMs + EARLY_MS ? "early" : null;
  }

  private boolean isPlausible() {
    double found = value.doubleValue();
    return switch (signal) {
      case "temperature" -> found >= -90 && found <= 150;
      case "humidity", "battery" -> found >= 0 && found <= 100;
      case "pressure" -> found >= 300 && found <= 1200;
      case "vibration" -> found >= 0 && found <= 1000;
      default -> true;
    };
  }
}
