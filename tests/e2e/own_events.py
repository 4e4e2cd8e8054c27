"""Own events of a stranger: a refund a minute of one hour, five of them twice, three records that are none, and one that closes the hour.

``own_events.py BROKER DAY``: the file that ``strandline up --json`` printed, and how many days after the first.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer

FIRST = datetime(2026, 11, 20, 8, tzinfo=UTC)
MINUTES = (*range(60), *range(5), 12 * 60)
BROKEN = 3

address = json.loads(Path(sys.argv[1]).read_text())["address"]
day = int(sys.argv[2])
producer = Producer({"bootstrap.servers": address})
arrived = 0
for minute in MINUTES:
    at = FIRST + timedelta(days=day, minutes=minute)
    arrived = int(at.timestamp() * 1000)
    refund = {"event_id": f"r{day}-{minute}", "event_at": at.isoformat()}
    producer.produce("refunds", json.dumps(refund), f"r{minute}", timestamp=arrived)
for _ in range(BROKEN):
    producer.produce("refunds", b"no refund", b"r0", timestamp=arrived)
if producer.flush(30):
    raise SystemExit("not all events were acknowledged")
