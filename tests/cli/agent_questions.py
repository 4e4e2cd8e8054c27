"""Forty-seven questions of an agent about the demo, each with its truth by another way: Polars over the Parquet files, or the play that sent the events.

They and their truths were fixed before a tool had answered one. The client knows what the tools say of themselves and nothing else: a
question names a tool and arguments, and both are held against what the server lists.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

import polars as pl
from polars import col
from strandline import Counts

Frame: TypeAlias = Callable[[str], pl.DataFrame]
"""Returns the rows that the files of a folder of the lake have, such as ``silver/user_actions``."""
Sent: TypeAlias = Mapping[str, Counts]
"""What the play expects of each silver table."""
Given: TypeAlias = Mapping[str, Any]

READINGS, CONNECTIONS, ACTIONS = (
    "silver/device_telemetry",
    "silver/network_connections",
    "silver/user_actions",
)
CONFIRMATIONS, PROGRAMS, DEVICES = (
    "silver/user_confirmations",
    "silver/process_events",
    "silver/devices",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question.

    Args:
        asks: It in words.
        tool: The tool that an agent chooses by its description.
        given: The arguments, of which some need an event of the lake.
        reads: Returns what the answer says.
        truth: Returns what is so.
        believed: What the answer says of itself; None of one that is no number.
        has_versions: Whether the answer says which versions were read; else the versions are what was asked, or none is.
    """

    asks: str
    tool: str
    given: Given | Callable[[Frame], Given]
    reads: Callable[[dict[str, Any]], Any]
    truth: Callable[[Frame, Sent], Any]
    believed: bool | None = True
    has_versions: bool = True

    def arguments(self, frame: Frame) -> Given:
        """Return the arguments."""
        return self.given(frame) if callable(self.given) else self.given


def same(value: Any) -> Any:  # noqa: ANN401, PLR0911  # whatever an engine returns
    """Return a value as all engines have it alike."""
    match value:
        case list() | tuple():
            return [same(each) for each in value]
        case set() | frozenset():
            return sorted(map(str, value))
        case dict():
            return {name: same(each) for name, each in value.items()}
        case bool() | None:
            return value
        case int() | float() | Decimal():
            return round(float(value), 4)
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        case str():
            return _number(value)
        case _:
            return str(value)


def _number(text: str) -> object:
    """Return a decimal or a moment, which JSON has as a text, as the other engine has it."""
    try:
        return round(float(Decimal(text)), 4)
    except ArithmeticError:
        pass
    try:
        return same(datetime.fromisoformat(text))
    except ValueError:
        return text


def _sql(
    asks: str, sql: str, truth: Callable[[Frame], pl.DataFrame | list[tuple[Any, ...]]]
) -> Question:
    def rows(frame: Frame, _: Sent) -> list[Any]:
        found = truth(frame)
        return found.rows() if isinstance(found, pl.DataFrame) else found

    return Question(
        asks=asks, tool="query", given={"sql": sql}, reads=lambda found: found["rows"], truth=rows
    )


def _one(asks: str, sql: str, truth: Callable[[Frame], Any]) -> Question:
    return _sql(asks, sql, lambda frame: [(truth(frame),)])


def _piles(name: str) -> Callable[[Frame, Sent], dict[str, int]]:
    def counted(frame: Frame, _: Sent) -> dict[str, int]:
        reasons = frame(f"quarantine/{name}").explode("reasons").group_by("reasons").len()
        return dict(reasons.rows())

    return counted


def _held(frame: Frame, name: str, reason: str) -> str:
    """Return the place of the first record that is held for one reason alone."""
    rows = frame(f"quarantine/{name}").filter(
        (col("reasons").list.len() == 1) & (col("reasons").list.first() == reason)
    )
    first = rows.sort("_topic", "_partition", "_offset").row(0, named=True)
    return f"{first['_topic']}/{first['_partition']}/{first['_offset']}"


BRONZE = ("device_telemetry", "network_connections", "user_actions", "user_confirmations")
PLACE = ["_topic", "_partition", "_offset"]


def _copy(frame: Frame) -> str:
    """Return the place of a record of bronze that is neither a row of silver nor held."""
    there = pl.concat(
        [frame(ACTIONS).select(PLACE), frame("quarantine/user_actions").select(PLACE)]
    )
    left = frame("bronze/user_actions").select(PLACE).join(there, on=PLACE, how="anti")
    topic, partition, offset = left.sort(PLACE).row(0)
    return f"{topic}/{partition}/{offset}"


QUESTIONS = (
    _one(
        "How many readings are there?",
        "SELECT count(*) FROM silver.device_telemetry",
        lambda f: f(READINGS).height,
    ),
    _one(
        "How many devices have sent readings?",
        "SELECT count(DISTINCT device_id) FROM silver.device_telemetry",
        lambda f: f(READINGS)["device_id"].n_unique(),
    ),
    _sql(
        "How many readings has each signal?",
        "SELECT signal, count(*) AS n FROM silver.device_telemetry GROUP BY ALL ORDER BY ALL",
        lambda f: f(READINGS).group_by("signal").len().sort("signal"),
    ),
    _one(
        "What is the highest temperature?",
        "SELECT max(value) FROM silver.device_telemetry WHERE signal = 'temperature'",
        lambda f: f(READINGS).filter(col("signal") == "temperature")["value"].max(),
    ),
    _sql(
        "From when until when are the readings?",
        "SELECT min(event_at), max(event_at) FROM silver.device_telemetry",
        lambda f: f(READINGS).select(
            col("event_at").min().alias("a"), col("event_at").max().alias("b")
        ),
    ),
    _sql(
        "Which three devices have sent most?",
        "SELECT device_id, count(*) AS n FROM silver.device_telemetry GROUP BY ALL ORDER BY n DESC, device_id LIMIT 3",
        lambda f: (
            f(READINGS)
            .group_by("device_id")
            .len()
            .sort(["len", "device_id"], descending=[True, False])
            .head(3)
        ),
    ),
    _one(
        "How many readings came from devices of firmware that is not known?",
        "SELECT count(*) FROM silver.device_telemetry WHERE firmware IS NULL",
        lambda f: f(READINGS)["firmware"].null_count(),
    ),
    _one(
        "How many bytes went out?",
        "SELECT sum(bytes_out) FROM silver.network_connections",
        lambda f: f(CONNECTIONS)["bytes_out"].cast(pl.Decimal(38, 0)).sum(),
    ),
    _one(
        "How many connections went to port 443?",
        "SELECT count(*) FROM silver.network_connections WHERE dst_port = 443",
        lambda f: f(CONNECTIONS).filter(col("dst_port") == 443).height,  # HTTPS
    ),
    _one(
        "How many addresses were called?",
        "SELECT count(DISTINCT dst_ip) FROM silver.network_connections",
        lambda f: f(CONNECTIONS)["dst_ip"].n_unique(),
    ),
    _one(
        "How many users acted? Their ids are masked, and can be counted.",
        "SELECT count(DISTINCT user_id) FROM silver.user_actions",
        lambda f: f(ACTIONS)["user_id"].n_unique(),
    ),
    _sql(
        "How often was each action done?",
        "SELECT action, count(*) FROM silver.user_actions GROUP BY ALL ORDER BY ALL",
        lambda f: f(ACTIONS).group_by("action").len().sort("action"),
    ),
    _one(
        "How many actions has the busiest user done? Not who.",
        "SELECT max(n) FROM (SELECT user_id, count(*) AS n FROM silver.user_actions GROUP BY user_id)",
        lambda f: f(ACTIONS).group_by("user_id").len()["len"].max(),
    ),
    _sql(
        "How many confirmations came by each method?",
        "SELECT method, count(*) FROM silver.user_confirmations GROUP BY ALL ORDER BY ALL",
        lambda f: f(CONFIRMATIONS).group_by("method").len().sort("method", nulls_last=True),
    ),
    _one(
        "How many log-ins were confirmed within two minutes?",
        "SELECT count(*) FROM gold.confirmed_logins WHERE is_confirmed",
        lambda f: f("gold/confirmed_logins").filter(col("is_confirmed")).height,
    ),
    _one(
        "How many log-ins were not confirmed?",
        "SELECT count(*) FROM gold.confirmed_logins WHERE NOT is_confirmed",
        lambda f: f("gold/confirmed_logins").filter(~col("is_confirmed")).height,
    ),
    _one(
        "How many of the users who acted have confirmed something? Joined by masked ids.",
        "SELECT count(DISTINCT a.user_id) FROM silver.user_actions a SEMI JOIN silver.user_confirmations c ON a.action_id = c.action_id",
        lambda f: (
            f(ACTIONS).join(f(CONFIRMATIONS), on="action_id", how="semi")["user_id"].n_unique()
        ),
    ),
    _sql(
        "How many windows of ten minutes are final, and how many readings are in them?",
        "SELECT count(*), sum(readings) FROM gold.device_signal_10m",
        lambda f: f("gold/device_signal_10m").select(
            pl.len().alias("a"), col("readings").sum().alias("b")
        ),
    ),
    _sql(
        "In which zones are days counted, and how many of them?",
        "SELECT zone, count(*) FROM gold.device_daily GROUP BY ALL ORDER BY ALL",
        lambda f: f("gold/device_daily").group_by("zone").len().sort("zone"),
    ),
    _one(
        "How many addresses are held now?",
        "SELECT count(*) FROM gold.ip_holds WHERE held_until IS NULL",
        lambda f: f("gold/ip_holds")["held_until"].null_count(),
    ),
    _sql(
        "How did holds end?",
        "SELECT coalesce(ended_by, 'open'), count(*) FROM gold.ip_holds GROUP BY ALL ORDER BY ALL",
        lambda f: (
            f("gold/ip_holds")
            .with_columns(col("ended_by").fill_null("open"))
            .group_by("ended_by")
            .len()
            .sort("ended_by")
        ),
    ),
    _sql(
        "Which site had the busiest hour?",
        "SELECT site, connections FROM gold.site_traffic_1h ORDER BY connections DESC, site, window_from LIMIT 1",
        lambda f: (
            f("gold/site_traffic_1h")
            .sort(["connections", "site", "window_from"], descending=[True, False, False])
            .select("site", "connections")
            .head(1)
        ),
    ),
    _sql(
        "Which five programs were started most?",
        'SELECT "Image", count(*) AS n FROM silver.process_events GROUP BY ALL ORDER BY n DESC, "Image" LIMIT 5',
        lambda f: (
            f(PROGRAMS)
            .group_by("Image")
            .len()
            .sort(["len", "Image"], descending=[True, False])
            .head(5)
        ),
    ),
    _one(
        "On how many computers were programs started?",
        'SELECT count(DISTINCT "Computer") FROM silver.process_events',
        lambda f: f(PROGRAMS)["Computer"].n_unique(),
    ),
    _one(
        "How many devices are known now?",
        "SELECT count(*) FROM silver.devices WHERE valid_until IS NULL",
        lambda f: f(DEVICES)["valid_until"].null_count(),
    ),
    _sql(
        "How many records did each topic of telemetry bring?",
        "SELECT _topic, count(*) FROM bronze.device_telemetry GROUP BY ALL ORDER BY ALL",
        lambda f: f("bronze/device_telemetry").group_by("_topic").len().sort("_topic"),
    ),
    _one(
        "How many telemetry records are held back because they are late?",
        "SELECT count(*) FROM quarantine.device_telemetry WHERE list_contains(reasons, 'late')",
        lambda f: (
            f("quarantine/device_telemetry").filter(col("reasons").list.contains("late")).height
        ),
    ),
    Question(
        asks="How many rows has each table of gold?",
        tool="tables",
        given={"layer": "gold"},
        reads=lambda found: {
            each["table"]: each["rows"]
            for each in found["tables"]
            if each["table"] in {"gold.ip_holds", "gold.confirmed_logins", "gold.device_daily"}
        },
        truth=lambda f, _: {
            f"gold.{name}": f(f"gold/{name}").height
            for name in ("ip_holds", "confirmed_logins", "device_daily")
        },
    ),
    Question(
        asks="Which columns of started programs are masked?",
        tool="schema",
        given={"table": "silver.process_events"},
        reads=lambda found: {
            each["name"]
            for each in found["columns"]
            if each.get("masked") and not each["name"].startswith("_")
        },
        truth=lambda *_: {
            "User",
            "CommandLine",
            "ParentCommandLine",
            "CurrentDirectory",
            "ParentUser",
        },
    ),
    Question(
        asks="What is a row of the readings known by, and of which type is its value?",
        tool="schema",
        given={"table": "silver.device_telemetry"},
        reads=lambda found: [
            found["key"],
            next(each["type"] for each in found["columns"] if each["name"] == "value"),
        ],
        truth=lambda *_: [["event_id"], "decimal(14,4)"],
    ),
    Question(
        asks="How many readings were sent twice?",
        tool="ledger",
        given={"tables": ["silver.device_telemetry"]},
        reads=lambda found: found["tables"][0].get("duplicates", 0),
        truth=lambda _, sent: sent["silver.device_telemetry"].duplicates,
    ),
    Question(
        asks="How many actions are held back, and why?",
        tool="ledger",
        given={"tables": ["silver.user_actions"]},
        reads=lambda found: found["tables"][0].get("quarantined", {}),
        truth=lambda _, sent: dict(sent["silver.user_actions"].quarantined),
    ),
    Question(
        asks="Is every connection in exactly one place?",
        tool="ledger",
        given={"tables": ["bronze.network_connections", "silver.network_connections"]},
        reads=lambda found: (
            [each["balanced"] for each in found["tables"]] + [found["tables"][1]["good"]]
        ),
        truth=lambda _, sent: [True, True, sent["silver.network_connections"].good],
    ),
    Question(
        asks="Why is this reading missing? It came too late.",
        tool="why",
        given=lambda f: {"event": _held(f, "device_telemetry", "late")},
        reads=lambda found: found["verdict"],
        truth=lambda *_: "late",
    ),
    Question(
        asks="Where is this reading? By its id.",
        tool="why",
        given=lambda f: {
            "event": f(READINGS)["event_id"].min(),
            "table": "silver.device_telemetry",
        },
        reads=lambda found: found["verdict"],
        truth=lambda *_: "in the table",
    ),
    Question(
        asks="Why is this action no row? It was sent twice.",
        tool="why",
        given=lambda f: {"event": _copy(f), "table": "silver.user_actions"},
        reads=lambda found: found["verdict"],
        truth=lambda *_: "duplicate",
    ),
    Question(
        asks="What is held back of the connections?",
        tool="quarantine",
        given={"table": "silver.network_connections"},
        reads=lambda found: {each["reason"]: each["open"] for each in found["piles"]},
        truth=_piles("network_connections"),
    ),
    Question(
        asks="From where is the user of a confirmed log-in?",
        tool="lineage",
        given={"table": "gold.confirmed_logins"},
        reads=lambda found: [found["columns"]["user_id"], "user_id" in found["masked"]],
        truth=lambda *_: [["silver.user_actions.user_id"], True],
    ),
    Question(
        asks="How many records has the newest batch of actions read?",
        tool="history",
        given={"table": "silver.user_actions", "last": 1},
        reads=lambda found: found["batches"][-1]["read"],
        truth=lambda f, _: f("bronze/user_actions").height,
    ),
    Question(
        asks="May the streams go on after a restart?",
        tool="preflight",
        given={},
        reads=lambda found: {each["answer"] for each in found["tables"]},
        truth=lambda *_: {"safe"},
    ),
    _sql(
        "Do silver and gold agree on log-ins, at one moment?",
        "SELECT (SELECT count(*) FROM silver.user_actions WHERE action = 'login'), (SELECT count(*) FROM gold.confirmed_logins) "
        "AT MOMENT LATEST",
        lambda f: [
            (
                f(ACTIONS).filter(col("action") == "login").height,
                f("gold/confirmed_logins").height,
            )
        ],
    ),
    Question(
        asks="Which tables of bronze agree at the latest moment?",
        tool="moments",
        given={},
        reads=lambda found: {*found["latest"]["versions"]} & {f"bronze.{name}" for name in BRONZE},
        truth=lambda f, _: {f"bronze.{name}" for name in BRONZE if f(f"bronze/{name}").height},
        believed=None,
        has_versions=False,
    ),
    Question(
        asks="How many actions have come since the year began?",
        tool="diff",
        given={"table": "silver.user_actions", "since": "2020-01-01T00:00", "limit": 0},
        reads=lambda found: [found["tables"][0][each] for each in ("came", "went", "changed")],
        truth=lambda f, _: [f(ACTIONS).height, 0, 0],
    ),
    Question(
        asks="Of which kind were these actions?",
        tool="diff",
        given={
            "table": "silver.user_actions",
            "since": "2020-01-01T00:00",
            "by": ["action"],
            "limit": 100,
        },
        reads=lambda found: {
            each["of"]["action"]: each["came"] for each in found["tables"][0]["groups"]
        },
        truth=lambda f, _: dict(f(ACTIONS).group_by("action").len().rows()),
    ),
    Question(
        asks="Is yesterday's number another one today? Nothing was repaired.",
        tool="diff",
        given={"table": "gold.device_signal_10m", "since": "LATEST"},
        reads=lambda found: [found["tables"][0][each] for each in ("came", "went", "changed")],
        truth=lambda *_: [0, 0, 0],
    ),
    Question(
        asks="How many rows were written for the actions, held ones included?",
        tool="cost",
        given={"tables": ["silver.user_actions"]},
        reads=lambda found: sum(each["written"] for each in found["tables"]),
        truth=lambda f, _: f(ACTIONS).height + f("quarantine/user_actions").height,
        has_versions=False,
    ),
    Question(
        asks="Which table of silver has written most rows?",
        tool="cost",
        given={},
        reads=lambda found: max(
            (each for each in found["tables"] if each["table"].startswith("silver.")),
            key=lambda each: each["written"],
        )["table"],
        truth=lambda f, _: max(
            (f(f"silver/{name}").height + f(f"quarantine/{name}").height, f"silver.{name}")
            for name in ("device_telemetry", "network_connections", "process_events")
        )[1],
        has_versions=False,
    ),
)
