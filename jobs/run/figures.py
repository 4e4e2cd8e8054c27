"""The figures of a report, made from balance sheets and from the hours that history remembers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date

from jobs.core.table import Layer, Table
from jobs.run.balance import Balance
from jobs.run.certificate import kept, standing
from jobs.run.expected import Memory
from jobs.run.lake import Lake
from jobs.run.past import Batch, points
from jobs.run.verdicts import flow
from quality.report.findings import Failing, Flow, Hour, Proof, Reason, Sheet

Days = Mapping[date, Sequence[Batch]]
"""What was committed on each day that is shown, hour by hour."""


def sheet(found: Balance) -> Sheet:
    """Return a balance sheet as the ledger draws it up."""
    return Sheet(
        flow=Flow(
            read=found.read,
            good=found.good,
            duplicates=found.duplicates,
            quarantined=sum(found.quarantined.values()),
            dropped=found.dropped_by_watermark,
        ),
        healed=found.healed,
        rows=found.rows,
        waiting=found.waiting,
        batches=found.batches,
        balanced=found.balanced,
        faults=tuple(found.faults),
    )


def hours(own: Sequence[Batch], before: Sequence[Batch]) -> tuple[Hour, ...]:
    """Return hours with what is usual in each, as the hours before it teach."""
    memory = Memory(points(before, "read"))
    made = []
    for hour in own:
        usual = memory.expected(hour.at, least=1.0)
        made.append(
            Hour(
                at=hour.at.isoformat(),
                flow=flow([hour]),
                freshness_s=hour.values.get("freshness_s"),
                usual=(usual.low, usual.high) if usual else None,
            )
        )
        for point in points([hour], "read"):
            memory.add(point)
    return tuple(made)


def failing(days: Days, judged: Sequence[date]) -> tuple[Failing, ...]:
    """Return the rules that rows broke; where no entry says it, the reasons that they were held back for."""
    names = {name for own in days.values() for hour in own for name in hour.values}
    kind = "broke:" if any(name.startswith("broke:") for name in names) else "quarantined:"
    judged_hours = [hour for day in judged for hour in days[day]]
    own = _summed(judged_hours, kind)
    read = sum(hour.value("read") for hour in judged_hours)
    return tuple(
        Failing(
            rule=rule,
            rows=rows,
            share=rows / read if read else 0.0,
            trend=tuple(_share(days[day], f"{kind}{rule}") for day in days),
        )
        for rule, rows in own.most_common()
    )


def reasons(own: Sequence[Batch]) -> tuple[Reason, ...]:
    """Return why rows were held back, the most frequent reason first."""
    held = _summed(own, "quarantined:")
    total = held.total()
    return tuple(
        Reason(reason=reason, rows=rows, share=rows / total) for reason, rows in held.most_common()
    )


def _summed(hours: Sequence[Batch], kind: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for hour in hours:
        for name, value in hour.values.items():
            if name.startswith(kind):
                sums[name.removeprefix(kind)] += round(value)
    return sums + Counter()  # without those that a backfill has taken away again


def _share(hours: Sequence[Batch], measure: str) -> float | None:
    read = sum(hour.value("read") for hour in hours)
    return sum(hour.value(measure) for hour in hours) / read if read > 0 else None


def proof(table: Table, lake: Lake) -> Proof | None:
    """Return what the last verification of a table says; bronze is what others are verified against."""
    if table.layer is Layer.BRONZE:
        return None
    last = kept(table, lake) or kept(table, lake, is_whole=False)
    return Proof(
        standing=standing(table, lake),
        at=last.at if last else None,
        rows=last.rows if last else None,
    )
