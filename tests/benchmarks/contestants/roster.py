"""Who takes part: what each is, what it promises, where it leaves its rows, and who could not be had.

A figure without a guarantee beside it compares a lock with an open door.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from tests.benchmarks.contestants.contestant import Contestant

HERE = "tests.benchmarks.contestants"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A contestant.

    Args:
        found: Its module here and its class; imported by its own process alone, so that none pays for another's libraries.
        about: What it is, with its settings.
        guarantee: What it promises of its rows.
        sink: What it writes.
        variants: Other settings with which the same process runs, by what they are.
        packages: What its process needs beside the product's own packages (peers.txt).
        environment: The list of packages, and the name of the script, of one in Python with an environment of its own (python).
        jars: The list of jars, and the folder of sources, of one that runs on Java (jvm).
    """

    found: str
    about: str
    guarantee: str
    sink: str
    variants: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    environment: str = ""
    jars: str = ""

    def load(self) -> Contestant:
        """Import and make it."""
        module, _, name = self.found.partition(":")
        made: Contestant = getattr(import_module(f"{HERE}.{module}"), name)()
        return made


KNOWN = {
    "strandline": Known(
        found="strandline:Strandline",
        about="this engine, `run(table, AvailableNow(), …)` for each table",
        guarantee="exactly once; each row accounted for in the commit that has it; completeness against Kafka checked; "
        "which copy survives depends on the data alone",
        sink="Delta, three layers and a quarantine",
    ),
    "nexmark": Known(
        found="nexmark:Nexmark",
        about="this engine with the tables of NEXMark",
        guarantee="as strandline",
        sink="Delta",
    ),
    "tuned": Known(
        found="tuned:Tuned",
        about="the same slice by hand in plain PySpark with the engine's session settings, Spark's own cache and RocksDB for state",
        guarantee="exactly once (`txnVersion`); no ledger, no proof of completeness; which copy survives is chance",
        sink="Delta, three layers and a quarantine",
    ),
    "tutorial": Known(
        found="tutorial:Tutorial",
        about="PySpark with default settings, as guides show it",
        guarantee="exactly once; a loose parse and no law of time, so it keeps what it should not",
        sink="Delta",
        variants={"2": "with 2 shuffle partitions instead of 200"},
    ),
    "delta-rs": Known(
        found="delta_rs:DeltaRs",
        about="a loop in Python: librdkafka (confluent-kafka), msgspec, delta-rs in commits of 100,000; windows by Polars",
        guarantee="offsets in the commit (application transactions), so no row twice and none lost with one writer; the copies that it "
        "looks for are in a dictionary, which a crash empties; silver and quarantine are two commits",
        sink="Delta; its clean step reads Kafka",
        packages=("msgspec",),
    ),
    "bytewax": Known(
        found="peer:Bytewax",
        about="Bytewax 0.21.1 (the last release, of November 2024), one worker, its recovery store with an epoch of 10 s; the parse is that of "
        "the loop with delta-rs, ids are kept by partition",
        guarantee="at least once from the last epoch, whose files are then written again under their names; ids are in the store; "
        "no ledger, no proof of completeness",
        sink="Parquet; its clean step reads Kafka",
        environment="bytewax",
    ),
    "quix": Known(
        found="peer:Quix",
        about="Quix Streams 3.28.1, one application, a commit every 10 s or 100,000 records, state in RocksDB with a changelog in Kafka, "
        "whose work is the broker's and is not counted; the parse is that of the loop with delta-rs",
        guarantee="at least once: what was written since the last commit comes again under other names; ids are kept for ever; "
        "no ledger, no proof of completeness",
        sink="Parquet; its clean step reads Kafka",
        environment="quix",
    ),
    "pathway": Known(
        found="peer:Pathway",
        about="Pathway 0.33.0, a static run on two threads; its sinks of Delta and Iceberg ask for a licence key and it has no other of "
        "Parquet, so a callback writes the files; the parse is that of the loop with delta-rs",
        guarantee="a run to the end of the topic: all of it again, or nothing (exactly once is in its paid edition); which copy survives is "
        "chance; no ledger, no proof of completeness",
        sink="Parquet; its clean step reads Kafka",
        environment="pathway",
    ),
    "duckdb": Known(
        found="duckdb_batch:DuckDb",
        about="DuckDB, one statement over all files, two threads",
        guarantee="a batch: all of it again, or nothing; no stream, no offsets",
        sink="Parquet",
    ),
    "polars": Known(
        found="polars_batch:PolarsBatch",
        about="Polars, one lazy query over all files",
        guarantee="a batch: all of it again, or nothing; no stream, no offsets",
        sink="Delta, by delta-rs",
    ),
    "flink": Known(
        found="jvm_peer:Flink",
        about="Flink SQL 2.3.0 in one JVM, parallelism 2, checkpoints every 10 s, objects reused, state in the heap; "
        "the strict parse and the percentile are Java; clean reads Kafka, windows are a batch over files",
        guarantee="exactly once by checkpoints; copies are looked for by the time at which they are met, for two hours of it, and "
        "which one survives is chance; no ledger, no proof of completeness",
        sink="Parquet, raw records only where they are asked for",
        variants={
            "rocksdb": "with state in RocksDB, incremental checkpoints",
            "iceberg": "with Iceberg tables instead of Parquet files",
        },
        jars="flink",
    ),
    "kafka-streams": Known(
        found="jvm_peer:KafkaStreams",
        about="Kafka Streams 4.3.1, two threads, state in RocksDB with changelogs in Kafka, whose work is the broker's and is not counted",
        guarantee="exactly once (`exactly_once_v2`) from Kafka to Kafka; no table",
        sink="a Kafka topic, each change a record",
        jars="kafka_streams",
    ),
}

ABSENT: dict[str, str] = {
    "Polars, the clean step": "`json_decode` ends the whole query at the first payload that is no JSON; a parse that says why a record is "
    "refused would be Python, record by record, which is the loop with delta-rs",
    "Flink's Delta connector": "no release of it for Flink 2",
    "Bytewax, Quix and Pathway, the windows and the Yahoo benchmark": "not written: they read Kafka and parse as the loop with delta-rs does, "
    "so the two steps that they take part in show what each adds to it",
    "Feldera, RisingWave": "package registries have their clients and no engine",
}
"""Who does not take part, and why."""


def process_of(name: str) -> str:
    """Return the contestant in whose process a name runs: those that differ in a setting share one."""
    return name.partition("/")[0]


def variant_of(name: str) -> str:
    """Return the setting that a name adds to the contestant's own."""
    return name.partition("/")[2]
