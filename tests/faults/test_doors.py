"""Every function that writes to the disk is killed before its writes by the crash suite, or is named here with a reason."""

from tests.faults.disk.doors import DOORS, ENGINE, callers, functions
from tests.faults.disk.outcomes import HIT

DOOR_MODULES = {f"{ENGINE}.{door.module}" for door in DOORS} | {
    f"{ENGINE}.storage.{name}" for name in ("place", "local_files", "object_files")
}

AGAIN = "a file that the same command writes anew, whole or not at all; no table depends on it"
PROGRAM = "a log or an output of a program, which no answer depends on"
LIVE = "killed while it runs in test_alerts_killed.py, test_counted_killed.py and test_delivery_killed.py"
BROKER = "our local broker for trials; what it loses a real Kafka keeps, and test_broker_away.py kills it"
LOCK = "a lock, which ends with its process; its text is for people"
SPARK = "Spark's own writes begin here; the recorder meets each of them"
DOMAIN = "killed at random in test_random_kills.py, with all tables of the domain"
REPAIR = "runs at the start after a crash: test_torn_checkpoint.py"

LEFT = "a checkpoint that is removed behind a mark; killed within in test_torn_checkpoint.py and test_feed_ledger.py"

MAINTAINED = "killed half-way in tests/engine/storage/test_cut_log.py and test_dead_files.py"
MERGED = "files that no commit names, then one commit: tests/engine/storage/test_merge_files.py"

SNAPSHOT = "killed after any file in test_snapshot.py"
SNAPSHOT_ON_STORE = (
    "what a kill leaves is begun anew: tests/engine/service/test_snapshot_on_store.py"
)
MARK = "a small file, whole or not at all; without it a start asks or measures again"

EDITED = "removes files one by one: killed at each in test_checkpoint_edits.py"

ACCEPTED = "one commit without rows, accepted once however often typed: test_lost_records.py"
SCRUBBED = "whole files, each the same when it is done again; after a kill closed books may be added up again"


IMPORTED = "a small file, whole or not there; killed and typed again in test_import_killed.py"

BEGUN = "a small file, whole or not there; interrupted and typed again in test_history_first.py"

REASONS = {
    "jobs.engine.runtime.low_priority:let_give_way": "a file of the kernel, about a process that runs",
    "jobs.engine.service.sql_users:_write": AGAIN,
    "jobs.engine.proof.verify:add_imported": "in the scratch lake of a verification, which a kill ends as a whole",
    "jobs.engine.repair.import_files:import_file": "one commit a slice; killed between two in test_import_killed.py",
    "jobs.engine.pipeline.shadow_lake:begin": "before the rebuild reads; the next rebuild removes its folder and begins anew",
    "jobs.engine.repair.rebuild:remove_shadow": "a rebuild that is not promoted; what a kill leaves the next scrub removes",
    "jobs.engine.storage.import_notes:keep_draft": IMPORTED,
    "jobs.engine.storage.import_notes:know": IMPORTED,
    "jobs.engine.storage.import_notes:note_range": IMPORTED,
    "jobs.engine.storage.import_notes:note_begun": BEGUN,
    "jobs.engine.storage.import_slices:note": IMPORTED,
    "jobs.engine.storage.import_notes:write": IMPORTED,
    "jobs.engine.pipeline.governor:_keep": MARK,
    "jobs.engine.pipeline.radar:keep": AGAIN,
    "jobs.engine.pipeline.spark_plan:refusal": "a copy of a checkpoint, thrown away with its folder",
    "jobs.engine.repair.accept_loss:accept": ACCEPTED,
    "jobs.operate.retirement:moved": "moves a table to another cluster, and no file",
    "jobs.engine.repair.leave_topic:_commit": "one commit without rows; typed twice it is refused: test_leave_topic.py",
    "jobs.engine.repair.accept_loss:accept_of_feed": ACCEPTED,
    "jobs.engine.repair.retire_table:delete": "a table that no module declares, its log last; typed again it goes on",
    "jobs.engine.repair.retire_table:_remove_table": "the same",
    "jobs.engine.storage.retired:_put": "one file, put whole under a lock",
    "jobs.engine.storage.retired:let_go": "killed between its two steps in test_retire_table.py",
    "jobs.engine.service.restore_snapshot:_beside": SNAPSHOT,
    "jobs.engine.service.restore_snapshot:_marked": SNAPSHOT_ON_STORE,
    "jobs.engine.service.restore_snapshot:_removed": SNAPSHOT,
    "jobs.engine.storage.bounded_log:add_line": PROGRAM,
    "jobs.engine.storage.formats:raise_to": "one file, put whole before what it says is written; raised again where a kill came between",
    "jobs.engine.storage.snapshot_store:_begun": SNAPSHOT_ON_STORE,
    "jobs.engine.storage.snapshot_store:_remove": SNAPSHOT,
    "jobs.engine.storage.snapshot_store:_remove_begun": SNAPSHOT,
    "jobs.engine.storage.store_probe:_honours_conditions": MARK,
    "jobs.engine.storage.store_probe:refuse_unsafe": MARK,
    "jobs.engine.service.restore_snapshot:_put_in_place": SNAPSHOT,
    "jobs.engine.service.restore_snapshot:_sign": SNAPSHOT,
    "jobs.engine.service.take_snapshot:_copied": SNAPSHOT,
    "jobs.engine.service.take_snapshot:_kept": SNAPSHOT,
    "jobs.engine.storage.frozen_files:_link": SNAPSHOT,
    "jobs.engine.storage.frozen_files:_name_checkpoint": SNAPSHOT,
    "jobs.engine.storage.hashed_files:hashed_link": SNAPSHOT,
    "jobs.engine.storage.hashed_files:link": SNAPSHOT,
    "jobs.engine.storage.scratch:scratch": "a folder that the next verification or maintenance removes",
    "jobs.engine.storage.snapshot_store:publish": SNAPSHOT,
    "jobs.engine.storage.scrub_log:_delete": SCRUBBED,
    "jobs.engine.storage.scrub_log:_drop_copies": SCRUBBED,
    "jobs.engine.storage.scrub_log:_rename": SCRUBBED,
    "jobs.engine.storage.scrub_log:_rewrite": SCRUBBED,
    "jobs.engine.storage.move_checkpoint:move_to": EDITED,
    "jobs.engine.storage.spark_checkpoint:plan_epoch": "the plan is one file, put at once; without it the next start plans anew",
    "jobs.engine.storage.withdrawn_batch:_forget_state": EDITED,
    "jobs.operate.demo:_empty": AGAIN,
    "jobs.cli.produce:produce": AGAIN,
    "jobs.cli.formats:deliver": AGAIN,
    "jobs.cli.formats:_replaced": AGAIN,
    "jobs.cli.formats:stream": AGAIN,
    "jobs.operate.scaffold:make": "the files of a project of one's own, in a folder that was empty",
    "jobs.operate.alerts.live_rules:keep": LIVE,
    "jobs.operate.drafts:put": AGAIN,
    "jobs.operate.drafts:write": AGAIN,
    "jobs.operate.alerts.draft:write": AGAIN,
    "jobs.operate.notebook:toured": AGAIN,
    "jobs.operate.report:written": AGAIN,
    "jobs.operate.alerts.backtest:keep_figures": AGAIN,
    "jobs.engine.accounting.close_ledger:_close_all": "compaction is one commit of delta-rs; both sides of it read the same",
    "jobs.engine.history.commit_history:catch_up": "as above; its rows are derived from the ledger, each once by its claim",
    "jobs.engine.kafka.local_broker:_format": BROKER,
    "jobs.engine.kafka.local_broker:_launch": BROKER,
    "jobs.engine.kafka.local_broker:_set_aside": BROKER,
    "jobs.engine.kafka.local_broker:_write": BROKER,
    "jobs.engine.kafka.local_broker:up": BROKER,
    "jobs.cli.main:_forget_old_traces": "removes stack traces in the system's folder, of which the newest stay",
    "jobs.engine.pipeline.column_lineage:take_over_lineage": "one file, put whole before a promotion's first row; the next one puts it again",
    "jobs.engine.pipeline.dimension_lookup:_replace": DOMAIN,
    "jobs.engine.pipeline.feed_ledger:_commit": LIVE,
    "jobs.engine.pipeline.feed_query:start": LIVE,
    "jobs.engine.pipeline.ingest:_make": DOMAIN,
    "jobs.engine.pipeline.recompute_windows:_put": DOMAIN,
    "jobs.engine.proof.certificate:keep": AGAIN,
    "jobs.engine.proof.resplit_log:_append": "in the scratch lake of a verification, which a kill ends as a whole",
    "jobs.engine.quarantine.export:export": AGAIN,
    "jobs.engine.repair.rebuild:compute_anew": "removes what no undo may use any more; the scrub removes the rest",
    "jobs.engine.repair.rebuild:remove_put_away": "the same, in the scrub, which is typed again",
    "jobs.engine.repair.write_healed:write_healed": "the commit into a table without rows; the same as that of a batch",
    "jobs.engine.runtime.processes:child": PROGRAM,
    "jobs.engine.runtime.spark_session:_launched": PROGRAM,
    "jobs.engine.service.class_archive:_make": "an archive of classes, made anew when it is missing or torn",
    "jobs.engine.service.class_archive:_receive": "the lake that warms the archive up; a scratch folder",
    "jobs.alerting.delivery.courier:_store": LIVE,
    "jobs.engine.service.dagster_process:_configure": AGAIN,
    "jobs.engine.service.failing:failing": PROGRAM,
    "jobs.engine.service.heartbeat:write": "a heartbeat, written every second",
    "jobs.engine.service.feed_host:_renew": LIVE,
    "jobs.engine.service.feed_run:_close": LIVE,
    "jobs.engine.service.feed_run:_ended": LIVE,
    "jobs.engine.service.feed_run:_tend": LIVE,
    "jobs.engine.service.set_aside:_taken_out": "a copy first, then one step; killed before it the commit is torn as it was",
    "jobs.engine.service.orphan_files:take_away": "removes what belongs to nothing; the next tidy removes the rest",
    "jobs.alerting.delivery.sinks:send": LIVE,
    "jobs.engine.storage.file_lock:hold": LOCK,
    "jobs.engine.storage.handover:_write": LOCK,
    "jobs.engine.storage.handover:end": LOCK,
    "jobs.engine.storage.locks:_lease": LOCK,
    "jobs.engine.storage.locks:_locker": LOCK,
    "jobs.engine.storage.locks:refuse_if_taken": LOCK,
    "jobs.engine.storage.cut_log:_move": MAINTAINED,
    "jobs.engine.storage.cut_log:cut": MAINTAINED,
    "jobs.engine.storage.dead_files:_delete": MAINTAINED,
    "jobs.engine.storage.dead_files:sweep": MAINTAINED,
    "jobs.engine.storage.locks:locked": LOCK,
    "jobs.engine.storage.locks:turn_without_jvm": LOCK,
    "jobs.engine.storage.merge_files:_sum_up": MERGED,
    "jobs.engine.storage.merge_files:merge_files": MERGED,
    "jobs.engine.storage.merged_file:_writer": MERGED,
    "jobs.engine.storage.merged_file:merged_file": MERGED,
    "jobs.engine.storage.pinned_versions:pin_versions": "a pin, which ends with its process",
    "jobs.engine.storage.pinned_versions:pins": "the same",
    "jobs.engine.storage.pinned_versions:let_go": "the same, by the word of a person",
    "jobs.engine.storage.pinned_versions:renew": "the same",
    "jobs.engine.storage.replace_rows:swap": "abandons files that no commit names",
    "jobs.engine.storage.near_copy:near_copy": "a copy near a program; the next look compares it with what it is a copy of",
    "jobs.engine.storage.rule_shelf:live_rules": "removes such copies of versions that are not live",
    "jobs.engine.storage.rule_shelf:_carry_muted": "only where rules were muted; a file of its own, written whole",
    "jobs.engine.storage.model_shelf:decide": "one file, replaced whole: tests/engine/storage/test_model_shelf.py",
    "jobs.engine.storage.model_shelf:restore": "the same file, replaced whole",
    "jobs.engine.storage.model_shelf:note": "a line that is too much is left: the terms are in the one file",
    "jobs.engine.storage.model_shelf:carry": "into a scratch lake, which a kill ends as a whole",
    "jobs.engine.storage.spark_checkpoint:begin_whole": "a mark before the first plan; the next start writes it again",
    "jobs.engine.storage.torn_checkpoint:_clear": REPAIR,
    "jobs.engine.storage.torn_checkpoint:_cut": REPAIR,
    "jobs.engine.storage.torn_checkpoint:_end_leaving": LEFT,
    "jobs.engine.storage.torn_checkpoint:leave": LEFT,
    "jobs.engine.storage.torn_checkpoint:_mend_id": REPAIR,
    "jobs.engine.storage.torn_checkpoint:_mend_schemas": REPAIR,
    "jobs.engine.trace.unmasked_log:write_down": "an audit's line, appended before the answer is printed",
}


def writers() -> set[str]:
    """Return the functions that write and are no doors themselves."""
    return {each for each in callers() if each.partition(":")[0] not in DOOR_MODULES}


def test_every_function_that_writes_is_met_by_the_crash_suite_or_has_a_reason() -> None:
    """A new durable write is red here until ``make prove`` has met it."""
    met = set(HIT.read_text().split())

    assert sorted(writers() - met - set(REASONS)) == []


def test_no_reason_outlives_its_function_or_hides_one_that_is_met() -> None:
    """What was renamed, removed, or is met by now has no reason any more."""
    assert sorted(set(REASONS) - writers()) == []


def test_what_is_met_is_still_there() -> None:
    """A name in the list of those that were met that the library has not any more was renamed."""
    assert sorted(set(HIT.read_text().split()) - set(functions())) == []
