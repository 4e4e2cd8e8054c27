"""The ids of schemas are found in the files that bronze has just written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.engine.flow.ingest import ids_behind


def test_only_payloads_of_the_wire_format_and_of_their_topics_have_an_id(tmp_path: Path) -> None:
    file = tmp_path / "records.parquet"
    records = [
        ("t", b"\0\0\0\0\7record"),
        ("t", b"\0\0\0\0\7another"),
        ("t", b"\0\xff\xff\xff\xff"),
        ("t", b"\0\0\0\1\0"),
        ("t", b"\0\0\0\1"),
        ("t", b'{"json": 1}'),
        ("t", b""),
        ("t", None),
        ("other", b"\0\0\0\0\x63"),
    ]
    topics, payloads = zip(*records, strict=True)
    table = pa.table({"_topic": list(topics), "_payload": pa.array(payloads, pa.binary())})
    pq.write_table(table, file)

    assert ids_behind(-1, [str(file)], "_payload", ["t"]) == [7, 256, (1 << 32) - 1]
    assert ids_behind(7, [str(file)], "_payload", ["t"]) == [256, (1 << 32) - 1]
