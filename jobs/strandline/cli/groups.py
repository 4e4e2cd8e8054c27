"""What each verb is for, what it reads and what it changes, in the groups in which the help shows them.

A line is shown whole on a terminal of 80 columns. Which module a verb is in is known to main; what is said at length is in
that module, and the exit codes that are a verb's own are read from there (explain).
"""

from dataclasses import dataclass
from typing import Any

import typer
from typer._coercion import RuntimeParam, build_runtime_param

WIDTH = 11
"""The longest name of a verb, so that the lines of all groups begin at one column."""

NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb.

    Args:
        line: What it is for.
        reads: What its answer or its work comes from.
        changes: What is another after it; nothing of a question.
        extra: The extra of the wheel whose packages it needs; none when empty.
    """

    line: str
    reads: str
    changes: str = NOTHING
    extra: str = ""


GROUPS: dict[str, dict[str, Verb]] = {
    "Run": {
        "demo": Verb(
            "From nothing to events of play, each accounted for.",
            "the project's play; a lake of its own, which it empties first",
            "that lake, its broker and its topics",
        ),
        "up": Verb(
            "Start the lake's Kafka broker, and create the topics.",
            "the topics of the declared tables",
            "the broker of this lake; no topic of another cluster",
        ),
        "down": Verb(
            "Stop that broker; its data stays.",
            "which broker the lake started",
            "that broker, which is stopped",
        ),
        "produce": Verb(
            "Send events of play to their topics, some of them dirty.",
            "the project's play, with the options that it has",
            "the topics in Kafka; of the lake nothing",
        ),
        "run": Verb(
            "Bring tables up to date, then stop.",
            "Kafka for bronze, the tables below for the others, and the code of the tables",
            "the tables with their quarantine, ledger and checkpoints",
        ),
        "stream": Verb(
            "Keep tables up to date until Ctrl-C.",
            "Kafka for bronze, the tables below for the others, and the code of the tables",
            "the tables with their quarantine, ledger and checkpoints, and the heartbeat",
        ),
        "resume": Verb(
            "Start the always-on stream in the background.",
            "the options of its last start",
            "the order that the stream is to run; then what `stream` changes",
        ),
        "pause": Verb(
            "Stop it after its running batches, and keep it stopped.",
            "the heartbeat",
            "the order that the stream is to rest, and who gave it; no row",
        ),
        "restart": Verb(
            "Stop it after its batches, and start it again.",
            "the options of its last start",
            "the order that the stream is to run; then what `stream` changes",
        ),
        "drain": Verb(
            "Stop it, then read the backlog to its end.",
            "the heartbeat; then what `run` reads",
            "the order that the stream is to rest; then what `run` changes",
        ),
        "publish": Verb(
            "Send changes of tables to Kafka and to databases.",
            "the commits of the tables, from where each target has got to",
            "the targets, and the lake's record of how far each has come",
        ),
        "catalog": Verb(
            "Show tables where other engines look for them.",
            "the logs of the tables, and what the catalog shows",
            "the catalog, and the lake's record of how far it is; no file of a table",
        ),
        "import": Verb(
            "Import history from files, beside the stream.",
            "the files, and the code of the tables",
            "rows of a bronze table, and those of the tables above in their range",
        ),
    },
    "Ask": {
        "tables": Verb("List the tables: sources, rows, certificates.", "the logs of the tables"),
        "ledger": Verb(
            "Prove where every event is.",
            "the entries in the logs of the tables; with --audit all of them",
        ),
        "cost": Verb(
            "Show what each table takes: CPU, bytes, a price.",
            "the entries of the days that are asked for, in the logs of the tables; with --keys some of their files, masked",
        ),
        "moments": Verb(
            "List versions of all tables that belong together.",
            "the newest entries in the logs of the tables, and the moments that are noted",
            "nothing; note: a small file with the versions; name, drop: second names of the files of a moment",
        ),
        "query": Verb(
            "Answer a small SQL question in about a second.",
            "the tables that it names, masked",
            "a file with --to; with --unmasked the log of who saw what",
        ),
        "shell": Verb(
            "Answer questions in SQL, one after the other.",
            "the tables that they name, masked",
            "its own history; with --unmasked the log of who saw what",
        ),
        "notebook": Verb(
            "Open JupyterLab over a lake that it cannot write.",
            "the lake, masked",
            "the folder of the notebooks",
            extra="notebook",
        ),
        "mcp": Verb(
            "Answer agents by tools that read, each with its verdict.",
            "the tables, masked; ledgers, history, and what Kafka keeps",
            "nothing but its own log of who asked what; add-client and remove-client its clients",
            extra="mcp",
        ),
        "why": Verb(
            "Explain why one event is in a table, or is not.",
            "Kafka, the ledger, and the files that may have the event",
        ),
        "who": Verb(
            "Show who changed or revealed what, the newest first.",
            "the newest parts of the log of orders",
        ),
        "diff": Verb(
            "Show what changed between two versions, and why.",
            "the commits between two versions of a table, and the files that only one of them has",
        ),
        "drift": Verb(
            "Show fields that come and are not declared, with the edit.",
            "the ledgers of the tables, their modules, and records of bronze",
            "nothing; with --apply the module of a table",
        ),
        "history": Verb(
            "Show the last batches: volumes, shares, anomalies.",
            "the ledgers, and the rows of quality.history",
            "quality.history in the lake, which it brings up to date",
        ),
        "report": Verb(
            "Report whether the numbers of a day can be trusted.",
            "ledgers, gates, certificates, history and audits of the day",
            "the page that it writes, and quality.history",
        ),
        "check": Verb(
            "Audit published rows: rules, keys, references, sums.",
            "the rows of silver and gold",
            "the audit of each table, which shuts or opens its gate",
        ),
        "verify": Verb(
            "Recompute tables as batch and stream, and compare.",
            "bronze, and the rows of the tables",
            "a scratch folder, which goes, and certificates",
        ),
        "compare": Verb(
            "Compare two lakes row for row.", "silver, quarantine and gold of both lakes"
        ),
    },
    "Repair": {
        "backfill": Verb(
            "Recompute a closed range of a table, and replace it.",
            "the table's sources, and its code",
            "the rows of that range in one commit; with --downstream of the tables above as well",
        ),
        "rewind": Verb(
            "Recompute what arrived from a moment or an offset on.",
            "bronze, and the code of the tables",
            "nothing; with --go the rows of the days that it names",
        ),
        "migrate": Verb(
            "Show what an edit asks of each table, and do it.",
            "the code of the tables, their ledgers and checkpoints",
            "nothing; with --go columns, checkpoints, and the rows of tables that are computed anew; --undo takes that back",
        ),
        "rebuild": Verb(
            "Compute a table anew beside the live one; show both.",
            "all sources of the table, and its code",
            "a table beside the live one, which `promote` takes",
        ),
        "promote": Verb(
            "Replace the live table by the rebuilt one.",
            "the rebuilt table",
            "the rows of the table in one commit, and its checkpoint",
        ),
        "undo": Verb(
            "Revert the last promotion of a table.",
            "what the promotion put aside",
            "the rows of the table in one commit, and its checkpoint",
        ),
        "quarantine": Verb(
            "List, show, replay, discard or export held rows.",
            "the quarantine, bronze, and the rules of the tables",
            "replay: rows of the table and of those above; discard: decisions; export: a file",
        ),
        "gate": Verb(
            "Show which batches are held back; let one pass.",
            "the gates, and sample rows of their batches",
            "nothing; with --open the gate for the batch that waits",
        ),
        "mend": Verb(
            "Take torn commits of a table out of its log.",
            "the log and the checkpoint of the table",
            "both; the torn files are kept in _damaged",
        ),
        "accept-loss": Verb(
            "Go on behind records that expired before a read.",
            "the table's offsets, and those that Kafka still has",
            "one entry of the ledger, with the lost offsets and who accepted that",
        ),
    },
    "Operate": {
        "status": Verb(
            "Show whether broker and stream are alive.",
            "heartbeats, orders and what failed",
        ),
        "probe": Verb("The same of one program on this host, by exit code.", "its heartbeat alone"),
        "logs": Verb("Show the stream's log, or another program's.", "the logs on this machine"),
        "metrics": Verb(
            "Serve the figures of the lake for Prometheus.",
            "logs of tables, heartbeats, gates; while no stream runs Kafka",
        ),
        "ui": Verb(
            "Operate the lake in the browser, with Dagster.",
            "the lake, and Dagster's history",
            "Dagster's history, and what its jobs and clicks change",
            extra="dagster",
        ),
        "serve": Verb(
            "Answer SQL over JDBC and ODBC, beside the stream.",
            "the tables, masked",
            "nothing; add-user and remove-user its users; with an unmasked user the log of who saw what",
        ),
        "radar": Verb(
            "Show how long until something unread may be gone.",
            "the ledger, checkpoints, and what Kafka keeps",
            "what the radar saw last, for the report and the metrics",
        ),
        "try": Verb(
            "Run a table's function over the last hour, in a batch.",
            "the last rows of the tables that it reads",
            "nothing",
        ),
        "preflight": Verb(
            "Check whether each stream can go on with its state.",
            "the code of the tables, and what their checkpoints recorded",
            "nothing",
        ),
        "maintain": Verb(
            "Put files together, delete what no reader needs.",
            "the logs and files of the tables",
            "files and logs, and no row",
        ),
        "snapshot": Verb(
            "Copy tables with all they rest on, as one set.",
            "the lake",
            "the folder for snapshots",
        ),
        "restore": Verb(
            "Make a lake of a snapshot, and verify it first.",
            "the snapshot, each file with its hash",
            "the new lake",
        ),
        "expire": Verb(
            "Show rows older than their table keeps; delete them.",
            "the logs of the tables",
            "nothing; with --go whole files of tables and quarantine",
        ),
        "forget": Verb(
            "Delete the rows of a person or a device everywhere.",
            "all layers, the quarantine and, with --search, every file",
            "nothing; with --go rows in all layers; with --scrub files and logs behind them",
        ),
        "retire": Verb(
            "Feed a table, or read a topic of one, no more.",
            "the table's offsets, and those of the cluster",
            "who feeds the table, and no row; with --delete its rows, checkpoint and history go",
        ),
        "move": Verb(
            "Read a bronze table on from another Kafka cluster.",
            "the table's offsets, and both clusters",
            "one entry of the ledger, with where each side ends and begins",
        ),
    },
    "Alerts and models": {
        "rules": Verb(
            "List, test, lint, explain, backtest alert rules.",
            "the folder of rules; a backtest also the tables",
            "nothing; promote and undo the rules that are live, a backtest its figures",
            extra="alerts",
        ),
        "alerts": Verb(
            "Raise alerts on events as they come.",
            "Kafka, and the live rules",
            "the topic alerts, and the lake's record of what was raised",
            extra="alerts",
        ),
        "deliver": Verb(
            "Bring alerts to people as notices.",
            "the topic alerts",
            "what each receiver has got; the receivers",
            extra="alerts",
        ),
        "models": Verb(
            "List, train, evaluate, promote, roll back models.",
            "the tables, and the versions of models in the lake",
            "train: a version; promote, rescore and rollback: which version scores which rows",
        ),
    },
    "Project": {
        "init": Verb("Make a project of your own.", "its drafts", "the new folder"),
        "new": Verb(
            "Write the draft of a table or of alerts, and its test.",
            "the tables of the project; with --from-topic or --sample records of a topic or of its bronze table",
            "files of the project, none of which must be there",
        ),
        "lint": Verb(
            "Find mistakes in files, without running them.",
            "the texts of tables, rules and strandline.toml",
            "nothing; with --schemas the files that it names",
        ),
        "contract": Verb(
            "What readers of a table are promised; what breaks it.",
            "the declaration of the table, and contracts/TABLE.odcs.yaml",
            "the file that export names; with import files of the project, none of which must be there",
        ),
        "setup": Verb(
            "Fetch Java, jars and extras that are missing.",
            "what is there, and which extras the project uses",
            "the virtual environment, or your cache folder",
        ),
        "doctor": Verb(
            "Check what is needed, and print what to type.",
            "the machine, and each thing that the settings name",
        ),
        "explain": Verb(
            "Say what a verb reads and changes, and its exit codes.",
            "the help of the verb",
        ),
    },
}
"""The groups, from what is typed first to what is typed once."""

ABOUT = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}
"""Each verb by its name."""


@dataclass(frozen=True)
class _AsTyped(RuntimeParam):
    """Takes what needs no conversion as it was typed: typer asks pydantic for each option, whose import takes longer than most answers.

    Args:
        descriptor: What the parameter is.
    """

    descriptor: Any

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  # typer keeps its click private
        info: Any = self.descriptor.parameter_info
        kind: Any = self.descriptor.annotation
        if info.parser is None:
            is_default = kind in {int, float} and value == param.default
            if type(value) is kind and (kind is str or is_default):
                return value
            if kind == list[str] and isinstance(value, list | tuple):
                return [*value]
        return build_runtime_param(self.descriptor)._coerce_value(value, param, ctx)  # noqa: SLF001  # as typer itself


class Eased(typer.core.TyperGroup):
    """A group that takes its options so, and those of its verbs."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401  # as above
        """Return the options of the group."""
        return _eased(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  # as above
        """Return a verb."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            _eased(found.get_params(ctx))
        return found


def _eased(params: Any) -> Any:  # noqa: ANN401  # as above
    for each in params:
        of = each.type_descriptor
        each._runtime_param = _AsTyped(of.parameter_info, of.annotation, of)  # noqa: SLF001  # there is no public way
    return params


class Grouped(Eased):
    """The program: its help has the verbs in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # typer keeps its click private
        """Write the verbs that this project has."""
        known = set(self.list_commands(ctx))
        for group, verbs in GROUPS.items():
            rows = [(name.ljust(WIDTH), each.line) for name, each in verbs.items() if name in known]
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)


class Whole(Eased):
    """A verb with verbs of its own: their sentences are broken, and not cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # typer keeps its click private
        """Write them."""
        named = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, each.get_short_help_str(limit=1_000)) for name, each in named if each]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
