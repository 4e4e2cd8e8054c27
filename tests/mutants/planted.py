"""Faults that a change could put into the engine, each with the tests that must notice.

A suite that is green proves little until it has been seen red for the right reason. Each fault is one that was made once,
here or elsewhere: a row dropped, an error swallowed, a lock skipped, an offset off by one, a sign reversed.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault.

    Args:
        what: What it breaks.
        file: The module, from the project's root.
        old: Text that occurs there once.
        new: What is put in its place.
        tests: What must fail: files, or tests in files.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


PIPELINE = "jobs/engine/pipeline"
STORAGE = "jobs/engine/storage"
COURIER = "tests/engine/service/test_courier.py"

MUTANTS = (
    Mutant(
        "lateness has the wrong sign",
        "jobs/core/lateness.py",
        "event_at < arrived_at - interval(self.late)",
        "event_at < arrived_at + interval(self.late)",
        ("tests/core/test_lateness.py",),
    ),
    Mutant(
        "disordered rows are believed",
        "jobs/core/lateness.py",
        'F.col("_newest_before") - interval(self.disorder)',
        'F.col("_newest_before") - interval(self.disorder * 1000)',
        ("tests/core/test_disorder.py",),
    ),
    Mutant(
        "a broken clock moves the watermark",
        "jobs/core/verdict.py",
        'F.when(is_stamped_ahead(), F.col("_newest_before"))',
        'F.when(F.lit(value=False), F.col("_newest_before"))',
        ("tests/core/test_disorder.py::test_a_broken_clock_in_a_backlog_takes_nothing_with_it",),
    ),
    Mutant(
        "rows with two reasons are in no place",
        "jobs/core/verdict.py",
        'rows.where(F.col("_reasons").isNotNull()).select(',
        'rows.where(F.size("_reasons") == 1).select(',
        ("tests/silver/test_device_telemetry.py",),
    ),
    Mutant(
        "of several copies the last one counts",
        "jobs/core/stateful.py",
        "Window.partitionBy(*same).orderBy(*order)",
        "Window.partitionBy(*same).orderBy(*map(F.desc, order))",
        ("tests/silver/test_device_telemetry.py",),
    ),
    Mutant(
        "a batch calls no window final",
        "jobs/core/stateful.py",
        'F.col(closes_at) <= F.col("_bound")',
        'F.col(closes_at) > F.col("_bound")',
        ("tests/gold/test_device_signal_10m.py",),
    ),
    Mutant(
        "a NULL in a key equals nothing",
        f"{STORAGE}/join_by_key.py",
        "F.col(own).eqNullSafe(F.col(their))",
        "(F.col(own) == F.col(their))",
        ("tests/engine/storage/test_join_by_key.py",),
    ),
    Mutant(
        "records that Kafka has deleted are passed over",
        f"{PIPELINE}/ingest.py",
        "topic_log.check_positions(self._table.id, start, bounds)",
        "pass",
        ("tests/engine/pipeline/test_ingest.py",),
    ),
    Mutant(
        "a loss is accepted that is not the whole loss",
        "jobs/engine/kafka/expired.py",
        "part: (offset, bounds[part][0])",
        "part: (offset, offset + 1)",
        ("tests/engine/repair/test_accept_loss.py",),
    ),
    Mutant(
        "the log of a table is kept for its quickest reader alone",
        f"{PIPELINE}/readers.py",
        "min(at, one.get(name, at))",
        "max(at, one.get(name, at))",
        ("tests/engine/pipeline/test_readers.py",),
    ),
    Mutant(
        "bronze counts offsets instead of records",
        f"{PIPELINE}/ingest.py",
        "read=written.rows,",
        "read=span,",
        ("tests/engine/pipeline/test_ingest.py",),
    ),
    Mutant(
        "a slice ends one record too late",
        "jobs/engine/kafka/slices.py",
        "stops[part] = min(max(stop, start[part]), end[part])",
        "stops[part] = min(max(stop + 1, start[part]), end[part])",
        ("tests/engine/kafka/test_slices.py",),
    ),
    Mutant(
        "records of an aborted transaction are read",
        "jobs/engine/kafka/topic_log.py",
        '"isolation.level": "read_committed"',
        '"isolation.level": "read_uncommitted"',
        ("tests/engine/kafka/test_topic_log.py", "tests/engine/pipeline/test_ingest.py"),
    ),
    Mutant(
        "the newest arrival runs back",
        f"{PIPELINE}/newest_arrival.py",
        "max([*_newest(path, written, seen_at), *([known] if known else [])], default=None)",
        "max(_newest(path, written, seen_at), default=known)",
        ("tests/engine/pipeline/test_disordered_intake.py",),
    ),
    Mutant(
        "a batch is written again after a crash",
        f"{PIPELINE}/batch_writer.py",
        "and newest[1].batch >= number",
        "and newest[1].batch > number",
        ("tests/faults/test_crash_points.py",),
    ),
    Mutant(
        "a quarantine is filled again after a crash",
        f"{PIPELINE}/batch_writer.py",
        "held_already=self._has(quarantine, number)",
        "held_already=False",
        ("tests/faults/test_crash_points.py",),
    ),
    Mutant(
        "a batch loses its last row",
        f"{PIPELINE}/write_silver.py",
        "commit.write(sized(rows, count)).rows if count else 0",
        "commit.write(sized(rows.limit(count - 1), count)).rows if count else 0",
        ("tests/silver/test_device_telemetry.py",),
    ),
    Mutant(
        "a second writer gets the lease",
        f"{STORAGE}/locks.py",
        "if _retried(path, lambda: file.getChannel().tryLock()) is None:",
        "if file is None:",
        ("tests/engine/storage/test_locks.py",),
    ),
    Mutant(
        "a commit does not wait for its turn",
        f"{STORAGE}/locks.py",
        "            _await_turn(path, lambda: file.getChannel().tryLock() is not None)\n",
        "",
        ("tests/engine/storage/test_locks.py", "tests/engine/storage/test_replace_rows_beside.py"),
    ),
    Mutant(
        "an entry that accounts for too little balances",
        "jobs/engine/accounting/table_books.py",
        "if entry.read != entry.accounted:",
        "if entry.read < entry.accounted:",
        ("tests/engine/accounting/test_balance_sheet.py",),
    ),
    Mutant(
        "closed books forget a fault",
        "jobs/engine/accounting/plain_books.py",
        'self.faults = [*sheet.get("faults", ())]',
        "self.faults = []",
        ("tests/engine/accounting/test_table_books.py",),
    ),
    Mutant(
        "an entry is left out when books are closed",
        "jobs/engine/accounting/close_ledger.py",
        "first = entries.claimed(subject) + 1",
        "first = entries.claimed(subject) + 2",
        ("tests/engine/accounting/test_close_ledger.py",),
    ),
    Mutant(
        "rows below the watermark are no fault",
        "jobs/engine/accounting/balance_sheet.py",
        "    if sheet.dropped_by_watermark:\n",
        "    if sheet.dropped_by_watermark < 0:\n",
        ("tests/engine/accounting/test_balance_sheet.py", "tests/silver/test_device_telemetry.py"),
    ),
    Mutant(
        "what was released from a quarantine is counted twice",
        "jobs/engine/accounting/balance_sheet.py",
        "live_rows(lake.quarantine(table)) - released(table, lake)",
        "live_rows(lake.quarantine(table))",
        ("tests/engine/repair/test_replay.py",),
    ),
    Mutant(
        "an opened gate lets any batch pass",
        "jobs/engine/gates/gate_files.py",
        "and self.is_of(other.stream, other.batch)",
        "and bool(other.stream)",
        ("tests/engine/gates/test_gate_files.py",),
    ),
    Mutant(
        "a batch that breaks a rule is published",
        "jobs/engine/gates/batch_check.py",
        "raise GateShutError.before(shut)",
        "return checked",
        ("tests/engine/gates/test_batch_check.py",),
    ),
    Mutant(
        "a mistake in a definition is waited for like an outage",
        "jobs/engine/runtime/outage.py",
        "    if isinstance(error, LakeError):\n        return None\n",
        '    if isinstance(error, LakeError):\n        return TransientError(str(error), hint="wait.")\n',
        ("tests/engine/runtime/test_outage.py",),
    ),
    Mutant(
        "a replay brings in every copy of a row",
        "jobs/engine/repair/replay_plan.py",
        'F.col("_reasons").isNull() & (F.col("_nth") == 1), Fate.HEALS.value',
        'F.col("_reasons").isNull() & (F.col("_nth") >= 1), Fate.HEALS.value',
        ("tests/engine/repair/test_replay.py", "tests/core/test_disorder.py"),
    ),
    Mutant(
        "a range that its stream still writes is computed again",
        "jobs/engine/repair/closed_range.py",
        "if closed is not None and span.until <= closed:",
        "if closed is None or span.until > closed or span.until <= closed:",
        ("tests/engine/repair/test_backfill.py",),
    ),
    Mutant(
        "two tables with as many rows are the same",
        "jobs/engine/proof/compare_bags.py",
        "list(l IS DISTINCT FROM r ORDER BY place)",
        "list(l.n IS DISTINCT FROM r.n ORDER BY place)",
        ("tests/engine/proof/test_compare_bags.py",),
    ),
    Mutant(
        "the newest version is the one before",
        f"{STORAGE}/ledger.py",
        "    while is_commit(path, version + 1):\n",
        "    while is_commit(path, version + 2):\n",
        ("tests/engine/storage/test_ledger.py",),
    ),
    Mutant(
        "an index of windows that missed a commit is believed",
        f"{STORAGE}/recent_files.py",
        "if version != self._version + 1:",
        "if self._version < 0:",
        ("tests/engine/storage/test_recent_files.py",),
    ),
    Mutant(
        "a flipped byte of a snapshot is restored",
        "jobs/engine/service/restore_snapshot.py",
        "if found.sha256 != file.sha256:",
        "if False:",
        ("tests/engine/service/test_restore_snapshot.py",),
    ),
    Mutant(
        "a purge deletes the newest materialization of a day",
        "orchestration/old_events.py",
        "partition IS NOT NULL GROUP BY partition",
        "partition = '' GROUP BY partition",
        ("tests/orchestration/test_purge.py",),
    ),
    Mutant(
        "sensitive fields are shown at depth",
        "quality/mask.py",
        "masked[label] = _masked(name, value, hidden, shown)",
        "masked[label] = value if isinstance(value, dict) else _masked(name, value, hidden, shown)",
        ("tests/quality/test_mask.py",),
    ),
    Mutant(
        "the last moment of a change is forgotten",
        f"{STORAGE}/changed_range.py",
        "return min(firsts), max(lasts)",
        "return min(firsts), min(lasts)",
        ("tests/engine/storage/test_changed_range.py",),
    ),
    Mutant(
        "rules are switched while tasks still judge by the former ones",
        "jobs/engine/pipeline/feed_query.py",
        "while running_tasks(spark, feed.id):",
        "while False:",
        ("tests/engine/pipeline/test_feed_query.py",),
    ),
    Mutant(
        "a notice is sent before it is stored",
        "jobs/engine/service/courier.py",
        "        self._store(at_once=True)\n        for rule in list(outbox):",
        "        for rule in list(outbox):",
        (f"{COURIER}::test_a_notice_that_is_sent_again_has_nothing_that_came_since",),
    ),
    Mutant(
        "a rule has a notice for each round of a storm",
        "jobs/engine/service/courier.py",
        "return not timedelta(0) <= self._desk.clock() - noticed < self._desk.every(rule)",
        "return True",
        (COURIER,),
    ),
    Mutant(
        "a rule goes live that contradicts its examples",
        "jobs/cli/promoted.py",
        "wrong += [(rule.origin, why) for rule, why in broken_thresholds(own.thresholds)]",
        "wrong = []",
        ("tests/cli/test_promote.py",),
    ),
)
