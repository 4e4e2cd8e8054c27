"""Every function that writes to the disk is killed before its writes by the crash suite, or is named here with a reason."""

from functools import cache

from tests.faults.disk.doors import DOORS, ENGINE, callers, functions
from tests.faults.disk.outcomes import HIT

DOOR_MODULES = {
    f"{ENGINE}.lake.{name}"
    for name in (
        "place",
        "local_files",
        "object_files",
        "commit.delta_commit",
    )
}
"""Modules that are doors as a whole."""

DOOR_FUNCTIONS = {f"{ENGINE}.{door.module}:{door.name.rpartition('.')[2]}" for door in DOORS} | {
    f"{ENGINE}.lake.{name}"
    for name in (
        "plain_files:_whole",
        "snapshot_files:link_commit",
        "mend_checkpoint:_settle_operator",
    )
}
"""Doors of other modules, and what each is made of."""

AGAIN = "a file that the same command writes anew, whole or not at all; no table depends on it"
PROGRAM = "a log or an output of a program, which no answer depends on"
SHOWN = (
    "of a catalog, which says itself in the transaction how far it is; the next sync does it again"
)
LIVE = "killed while it runs in test_alerts_killed.py, test_counted_killed.py and test_delivery_killed.py"
BROKER = "our local broker for trials; what it loses a real Kafka keeps, and test_broker_away.py kills it"
LEASE = "a lease on a store, which expires; tests/engine/lake/test_store_lease.py takes it from the dead"
LOCK = "a lock, which ends with its process; its text is for people"
SPARK = "Spark's own writes begin here; the recorder meets each of them"
DOMAIN = "killed at random in test_random_kills.py, with all tables of the domain"
REPAIR = "runs at the start after a crash: test_torn_checkpoint.py"

LEFT = "a checkpoint that is removed behind a mark; killed within in test_torn_checkpoint.py and test_feed_ledger.py"

RENAMED = "files that no commit names, then one commit, as those that are put together"

MAINTAINED = "killed half-way in tests/engine/lake/test_cut_log.py and test_dead_files.py"
MERGED = "files that no commit names, then one commit: tests/engine/lake/test_merge_files.py"

SNAPSHOT = "killed after any file in test_snapshot.py"
SNAPSHOT_ON_STORE = (
    "what a kill leaves is begun anew: tests/engine/service/test_snapshot_on_store.py"
)
MARK = "a small file, whole or not at all; without it a start asks or measures again"

EDITED = "removes files one by one: killed at each in test_checkpoint_edits.py"

ACCEPTED = "one commit without rows, accepted once however often typed: test_lost_records.py"
SCRUBBED = "whole files, each the same when it is done again; after a kill closed books may be added up again"


BESIDE = "provisional rows, in no book: torn or lacking, the next computation makes them anew"

IMPORTED = "a small file, whole or not there; killed and typed again in test_import_killed.py"

BEGUN = "a small file, whole or not there; interrupted and typed again in test_history_first.py"

ORDERED = "a line of the log of orders, before what it is about: killed in tests/cli/test_who.py"

NAMED_MOMENT = "a folder that is no moment without its last file: tests/engine/ask/test_moments.py"

HASHES = "hashes of code, in no lake; torn or gone they are made anew: tests/engine/runtime/test_kept_hashes.py"

REASONS = {
    "strandline.engine.runtime.code_files:keep": HASHES,
    "strandline.engine.runtime.code_files:_forget_others": HASHES,
    "strandline.engine.runtime.log_files:bound": PROGRAM,
    "strandline.engine.runtime.log_files:alone": ORDERED,
    "strandline.engine.runtime.processes:let_give_way": "a file of the kernel, about a process that runs",
    "strandline.engine.service.sql_server:_write": AGAIN,
    "strandline.engine.service.sql_server:admitted": AGAIN,
    "strandline.operate.mcp_server:_keep": AGAIN,
    "strandline.engine.proof.verify:add_imported": "in the scratch lake of a verification, which a kill ends as a whole",
    "strandline.engine.repair.import_files:import_file": "one commit a slice; killed between two in test_import_killed.py",
    "strandline.engine.service.alarms:_store": "one file of this machine, put whole; where it is torn, alarms are sent once more",
    "strandline.cli.verbs.project:lint": "files beside a project, which are no lake's; typed again they are written again",
    "strandline.engine.ask.moments:note": "one file, put whole; without it the next run or look notes one",
    "strandline.engine.ask.named_moments:keep_named": NAMED_MOMENT,
    "strandline.engine.ask.named_moments:_keep": NAMED_MOMENT,
    "strandline.engine.ask.named_moments:drop": NAMED_MOMENT,
    "strandline.engine.lake.duckdb_table:write_rows": NAMED_MOMENT,
    "strandline.engine.ask.named_moments:remove_half": NAMED_MOMENT,
    "strandline.engine.lake.import_notes:_write_to_follow": "one file, put whole before the first commit: tests/faults/test_replay_killed.py",
    "strandline.engine.ask.named_moments:forget_in": "removes tables of moments that have a name; typed again it goes on",
    "strandline.engine.service.edited_code:answer": "one file, put whole; who asked asks again",
    "strandline.engine.service.edited_code:ask": "one file, put whole; typed again it is another request",
    "strandline.engine.proof.trial_lakes:_take_along": "in a scratch folder, which a kill ends as a whole",
    "strandline.engine.repair.migrate:keep": "one file, put whole; killed before and after it in tests/cli/test_migrate.py",
    "strandline.engine.lake.commit.replace_rows:_remove_written": RENAMED,
    "strandline.engine.lake.commit.replace_rows:_renamed": RENAMED,
    "strandline.engine.lake.commit.replace_rows:_sum_up_names": RENAMED,
    "strandline.engine.repair.migrate:note_equal": "one file, put whole; without it the table is compared again",
    "strandline.engine.flow.shadow_lake:begin": "before the rebuild reads; the next rebuild removes its folder and begins anew",
    "strandline.engine.repair.rebuild:remove_shadow": "a rebuild that is not promoted; what a kill leaves the next scrub removes",
    "strandline.engine.lake.import_notes:keep_draft": IMPORTED,
    "strandline.engine.lake.import_notes:know": IMPORTED,
    "strandline.engine.lake.import_notes:note_range": IMPORTED,
    "strandline.engine.lake.import_notes:note_begun": BEGUN,
    "strandline.engine.lake.import_notes:note": IMPORTED,
    "strandline.engine.lake.import_notes:write": IMPORTED,
    "strandline.engine.flow.batch.governor:_keep": MARK,
    "strandline.engine.flow.readers:keep": AGAIN,
    "strandline.engine.flow.spark_plan:refusal": "a copy of a checkpoint, thrown away with its folder",
    "strandline.engine.repair.close:accept": ACCEPTED,
    "strandline.operate.decisions:moved": "moves a table to another cluster, and no file",
    "strandline.engine.repair.retire:_commit": "one commit without rows; typed twice it is refused: test_leave_topic.py",
    "strandline.engine.repair.close:accept_of_feed": ACCEPTED,
    "strandline.engine.repair.retire:delete": "a table that no module declares, its log last; typed again it goes on",
    "strandline.engine.repair.retire:_remove_table": "the same",
    "strandline.engine.lake.completeness:_put": "one file, put whole under a lock",
    "strandline.engine.lake.completeness:let_go": "killed between its two steps in test_retire_table.py",
    "strandline.engine.service.snapshot:_beside": SNAPSHOT,
    "strandline.engine.service.snapshot:_marked": SNAPSHOT_ON_STORE,
    "strandline.engine.service.snapshot:_removed": SNAPSHOT,
    "strandline.engine.lake.plain_files:add_line": PROGRAM,
    "strandline.engine.lake.lake:raise_to": "one file, put whole before what it says is written; raised again where a kill came between",
    "strandline.engine.lake.snapshot_files:_begun": SNAPSHOT_ON_STORE,
    "strandline.engine.lake.snapshot_files:_remove": SNAPSHOT,
    "strandline.engine.lake.snapshot_files:_remove_begun": SNAPSHOT,
    "strandline.engine.lake.lake:_honours_conditions": MARK,
    "strandline.engine.lake.lake:refuse_unsafe": MARK,
    "strandline.engine.service.snapshot:_put_in_place": SNAPSHOT,
    "strandline.engine.service.snapshot:_sign": SNAPSHOT,
    "strandline.engine.service.snapshot:_copied": SNAPSHOT,
    "strandline.engine.service.snapshot:_kept": SNAPSHOT,
    "strandline.engine.lake.snapshot_files:_link": SNAPSHOT,
    "strandline.engine.lake.snapshot_files:_name_checkpoint": SNAPSHOT,
    "strandline.engine.lake.snapshot_files:hashed_link": SNAPSHOT,
    "strandline.engine.lake.snapshot_files:link": SNAPSHOT,
    "strandline.engine.lake.plain_files:scratch": "a folder that the next verification or maintenance removes",
    "strandline.engine.lake.snapshot_files:publish": SNAPSHOT,
    "strandline.engine.lake.forgotten:_delete": SCRUBBED,
    "strandline.engine.lake.forgotten:_drop_copies": SCRUBBED,
    "strandline.engine.lake.forgotten:_rename": SCRUBBED,
    "strandline.engine.lake.forgotten:_rewrite": SCRUBBED,
    "strandline.engine.lake.mend_checkpoint:move_to": EDITED,
    "strandline.engine.lake.spark_checkpoint:order_close": "a note, then a plan; killed between and after in tests/engine/repair/test_close.py",
    "strandline.engine.lake.spark_checkpoint:plan_epoch": "the plan is one file, put at once; without it the next start plans anew",
    "strandline.engine.lake.mend_checkpoint:_forget_state": EDITED,
    "strandline.operate.demo:_empty": AGAIN,
    "strandline.cli.verbs.play:produce": AGAIN,
    "strandline.cli.verbs.query:deliver": AGAIN,
    "strandline.cli.verbs.query:_replaced": AGAIN,
    "strandline.cli.verbs.query:stream": AGAIN,
    "strandline.operate.drafts.scaffold:make": "the files of a project of one's own, in a folder that was empty",
    "strandline.operate.alerts.raising:keep": LIVE,
    "strandline.operate.drafts.contract:export": AGAIN,
    "strandline.operate.drafts.scaffold:put": AGAIN,
    "strandline.operate.drafts.scaffold:write_texts": AGAIN,
    "strandline.operate.drafts.scaffold:write_sql": AGAIN,
    "strandline.operate.drafts.drift:_put": "a module of the user's, whole or as it was; the same command edits it again",
    "strandline.operate.alerts.draft:write": AGAIN,
    "strandline.operate.demo:toured": AGAIN,
    "strandline.operate.lake_page:_report": "nothing is written: the address of a page that is there",
    "strandline.operate.audit:written": AGAIN,
    "strandline.operate.alerts.backtest:keep_figures": AGAIN,
    "strandline.engine.accounting.table_books:_close_all": "compaction is one commit of delta-rs; both sides of it read the same",
    "strandline.engine.accounting.process_lines:note_process": "one small file, put whole; a kill loses the last minute of what a process used",
    "strandline.engine.accounting.process_lines:fold": "a file of a day made once, then what is in it is removed: tests/engine/service/test_process_cost.py",
    "strandline.engine.accounting.commit_history:catch_up": "as above; its rows are derived from the ledger, each once by its claim",
    "strandline.engine.kafka.broker:_format": BROKER,
    "strandline.engine.kafka.broker:_launch": BROKER,
    "strandline.engine.kafka.broker:_set_aside": BROKER,
    "strandline.engine.kafka.broker:_write": BROKER,
    "strandline.engine.kafka.broker:up": BROKER,
    "strandline.cli.main:_forget_old_traces": "removes stack traces in the system's folder, of which the newest stay",
    "strandline.engine.flow.function_plan:take_over_lineage": "one file, put whole before a promotion's first row; the next one puts it again",
    "strandline.engine.flow.batch.event_joins:_replace": DOMAIN,
    "strandline.engine.flow.batch.event_joins:_commit": "one commit; ended before and after it in tests/engine/flow/test_static_join.py",
    "strandline.engine.lake.static_versions:carry": "in the scratch lake of a verification, which a kill ends as a whole",
    "strandline.engine.flow.feed_ledger:_commit": LIVE,
    "strandline.engine.flow.feed_query:start": LIVE,
    "strandline.engine.flow.ingest:make": DOMAIN,
    "strandline.engine.flow.recompute:_put": DOMAIN,
    "strandline.engine.proof.certificate:keep": AGAIN,
    "strandline.engine.proof.trial_lakes:_append": "in the scratch lake of a verification, which a kill ends as a whole",
    "strandline.engine.accounting.browse_held:export": AGAIN,
    "strandline.engine.repair.rebuild:compute_anew": "removes what no undo may use any more; the scrub removes the rest",
    "strandline.engine.repair.rebuild:begin_anew": "a table without a batch; the migration is typed again and removes the rest",
    "strandline.engine.repair.rebuild:remove_put_away": "the same, in the scrub, which is typed again",
    "strandline.engine.repair.replay:write_healed": "the commit into a table without rows; the same as that of a batch",
    "strandline.engine.runtime.processes:child": PROGRAM,
    "strandline.engine.runtime.spark_session:_launched": PROGRAM,
    "strandline.engine.service.class_archive:_make": "an archive of classes, made anew when it is missing or torn",
    "strandline.engine.service.class_archive:_receive": "the lake that warms the archive up; a scratch folder",
    "strandline.alerting.courier:_store": LIVE,
    "strandline.engine.flow.targets:begin": "a transaction of PostgreSQL, and no file",
    "strandline.engine.flow.targets:keep": "the same; killed in test_publish_killed.py",
    "strandline.engine.publish.catalogs:_keep": SHOWN,
    "strandline.engine.publish.catalogs:dropped": SHOWN,
    "strandline.engine.publish.ducklake:_change": SHOWN,
    "strandline.engine.publish.ducklake:_link": SHOWN,
    "strandline.engine.publish.iceberg:_expire": "the files of snapshots that are gone: what a kill leaves of them nothing names",
    "strandline.engine.flow.publisher:_store": "killed while it runs in test_publish_killed.py",
    "strandline.engine.service.dagster_process:_configure": AGAIN,
    "strandline.engine.service.stream_health:failing": PROGRAM,
    "strandline.engine.service.stream_health:write_beat": "a heartbeat, written every second",
    "strandline.engine.service.feed_host:_renew": LIVE,
    "strandline.engine.service.feed_host:_close": LIVE,
    "strandline.engine.service.feed_host:_ended": LIVE,
    "strandline.engine.service.feed_host:_tend": LIVE,
    "strandline.engine.service.set_aside:_taken_out": "a copy first, then one step; killed before it the commit is torn as it was",
    "strandline.engine.service.maintain:take_away": "removes what belongs to nothing; the next tidy removes the rest",
    "strandline.alerting.notice:send": LIVE,
    "strandline.engine.lake.store_lease:hold": LOCK,
    "strandline.engine.lake.store_lease:_renewed": LEASE,
    "strandline.engine.lake.store_lease:release": LEASE,
    "strandline.engine.lake.store_lease:take": LEASE,
    "strandline.engine.lake.store_lease:take_again": LEASE,
    "strandline.engine.lake.locks:_write": LOCK,
    "strandline.engine.lake.locks:end": LOCK,
    "strandline.engine.lake.locks:_lease": LOCK,
    "strandline.engine.lake.locks:_locker": LOCK,
    "strandline.engine.lake.locks:refuse_if_taken": LOCK,
    "strandline.engine.lake.log.vacuum:_move": MAINTAINED,
    "strandline.engine.lake.log.vacuum:cut": MAINTAINED,
    "strandline.engine.lake.log.vacuum:_delete": MAINTAINED,
    "strandline.engine.lake.log.vacuum:sweep": MAINTAINED,
    "strandline.engine.lake.locks:locked": LOCK,
    "strandline.engine.lake.locks:turn_without_jvm": LOCK,
    "strandline.engine.lake.commit.compact:_sum_up": MERGED,
    "strandline.engine.lake.commit.compact:merge_files": MERGED,
    "strandline.engine.lake.commit.compact:_throw_away": "files that no commit names; killed, the rest are orphans, as those of a killed merge are",
    "strandline.engine.lake.commit.compact:rewrite_times": "a commit as a merge makes it, then how far it is: killed between them it looks again",
    "strandline.engine.lake.commit.compact:writing": MERGED,
    "strandline.engine.lake.commit.compact:merged_file": MERGED,
    "strandline.engine.lake.open_table:pin_versions": "a pin, which ends with its process",
    "strandline.engine.lake.open_table:pins": "the same",
    "strandline.engine.lake.open_table:let_go": "the same, by the word of a person",
    "strandline.engine.lake.open_table:renew": "the same",
    "strandline.engine.lake.commit.replace_rows:swap": "abandons files that no commit names",
    "strandline.engine.lake.shelves:near_copy": "a copy near a program; the next look compares it with what it is a copy of",
    "strandline.engine.lake.shelves:live_rules": "removes such copies of versions that are not live",
    "strandline.engine.lake.shelves:_carry_muted": "only where rules were muted; a file of its own, written whole",
    "strandline.engine.lake.shelves:decide": "one file, replaced whole: tests/engine/lake/test_model_shelf.py",
    "strandline.engine.lake.shelves:restore": "the same file, replaced whole",
    "strandline.engine.lake.shelves:note": "a line that is too much is left: the terms are in the one file",
    "strandline.engine.lake.shelves:carry": "into a scratch lake, which a kill ends as a whole",
    "strandline.engine.lake.spark_checkpoint:begin_whole": "a mark before the first plan; the next start writes it again",
    "strandline.engine.lake.mend_checkpoint:_clear": REPAIR,
    "strandline.engine.lake.mend_checkpoint:_cut": REPAIR,
    "strandline.engine.lake.mend_checkpoint:_end_leaving": LEFT,
    "strandline.engine.lake.mend_checkpoint:leave": LEFT,
    "strandline.engine.lake.mend_checkpoint:_mend_id": REPAIR,
    "strandline.engine.lake.mend_checkpoint:_mend_schemas": REPAIR,
    "strandline.engine.flow.provisional:_compute": BESIDE,
    "strandline.engine.lake.completeness:forget": "removes folders; killed before it a request is not done, and typed again",
    "strandline.engine.lake.completeness:mend": BESIDE,
    "strandline.engine.lake.completeness:remove": BESIDE,
    "strandline.engine.lake.completeness:remove_stale": BESIDE,
    "strandline.engine.lake.completeness:sweep": BESIDE,
    "strandline.engine.lake.order_log:_added_on_store": ORDERED,
    "strandline.engine.lake.order_log:forget_calls": "replaces words in a log, whole; typed again it goes on",
    "strandline.engine.lake.order_log:_replace": "replaces words in a part of the log, whole; typed again it goes on",
}


@cache
def writers() -> set[str]:
    """Return the functions that write and are no doors themselves."""
    return {
        each
        for each in callers()
        if each.partition(":")[0] not in DOOR_MODULES and each not in DOOR_FUNCTIONS
    }


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
