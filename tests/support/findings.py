"""A report's structure with one of everything, and whatever text a test wants to see in it."""

from strandline_quality.findings import (
    AsOf,
    Day,
    Drift,
    Failing,
    Findings,
    Flow,
    Gate,
    Hour,
    KindOfRecord,
    Open,
    Proof,
    Reason,
    Revision,
    Sample,
    Sheet,
    TableFindings,
    Unread,
    Verdict,
)

FLOW = Flow(read=1_234_567, good=1_200_001, duplicates=30_333, quarantined=4_233)
MADE = "2026-11-22T06:00:00+00:00"


def report(odd: str = "", verdict: Verdict = Verdict.HELD, days: int = 1) -> Findings:
    """Return a report of some days up to the 21st; ``odd`` is wherever data or people can put a text."""
    table = findings(odd, verdict)
    return Findings(
        lake=f"lake{odd}",
        made_at=MADE,
        since=f"2026-11-{22 - days:02}T00:00:00+00:00",
        until="2026-11-22T00:00:00+00:00",
        verdict=verdict,
        sentence=f"The numbers of 21 November 2026 are {verdict}.",
        because=tuple(f"{table.table}: {why}" for why in table.because),
        arrived=FLOW.read,
        judged=FLOW,
        tables=(table,),
        unread=(
            Unread(
                reader=f"bronze.device_telemetry{odd}",
                seen_at="2026-11-21T23:55:00+00:00",
                unread=12_345,
                goes_at="2026-11-23T01:00:00+00:00",
                level=f"soon{odd}",
                says=f"device-telemetry/0: kept for another 1 d 1 h at least{odd}",
            ),
        ),
        reported="2026-11-21T06:00:00+00:00",
        revisions=(
            Revision(
                table=f"{table.table}{odd}",
                rows=214,
                days=("2026-11-14", "2026-11-15"),
                causes=((f"a backfill{odd}", 200), ("late events", 14)),
                commits=2,
                since=12,
                until=15,
                command=f"strandline diff {table.table} --from 12 --to 15{odd}",
            ),
        ),
        as_of=AsOf(moment=17, at=MADE, beyond=(f"gold.x{odd}",), behind=()),
    )


def findings(odd: str = "", verdict: Verdict = Verdict.HELD) -> TableFindings:
    """Return what is known of a table."""
    hours = tuple(
        Hour(
            at=f"2026-11-21T{hour:02}:00:00+00:00",
            flow=Flow(read=1000 + 37 * hour, good=990 + 37 * hour, quarantined=10),
            freshness_s=30.0 + hour,
            usual=(800.0, 1_900.0),
        )
        for hour in range(24)
    )
    days = tuple(
        Day(day=f"2026-11-{8 + n:02}", verdict=list(Verdict)[n % 6], because=(odd,), flow=FLOW)
        for n in range(14)
    )
    return TableFindings(
        table=f"silver.device_telemetry{odd}",
        about=f"What the devices measured{odd}",
        owner=f"fleet{odd}",
        judges=True,
        verdict=verdict,
        because=(f"the volume was 12 rows{odd}", f"at 09:00 opened by hand: {odd}"),
        sheet=Sheet(
            flow=FLOW, rows=1_200_001, waiting=77, batches=9, balanced=False, faults=(odd,)
        ),
        flow=FLOW,
        newest_at="2026-11-21T23:41:00+00:00",
        days=days,
        hours=hours,
        failing=(
            Failing(
                rule=f"missing:value{odd}",
                rows=4_000,
                share=0.0032,
                trend=(0.0, None, 0.1, 0.2) * 3 + (0.1, 0.05),
            ),
        ),
        reasons=(Reason(reason=f"late{odd}", rows=4_233, share=1.0),),
        samples=(
            Sample(
                topic=f"device-telemetry{odd}",
                partition=3,
                offset=98_765,
                arrived_at="2026-11-21T20:00:00+00:00",
                reasons=(f"late{odd}", "early"),
                payload=f'{{"event_id":"{odd}","{"long" * 60}":1}}',
            ),
        ),
        quarantine=Open(
            rows=5_151,
            oldest="2026-09-01T00:00:00+00:00",
            ages=(("under an hour", 1), ("older", 5_150)),
        ),
        gate=Gate(since="2026-11-21T10:00:00+00:00", why=f"too few rows{odd}"),
        proof=Proof(standing=f"equal{odd}", at="2026-11-20T00:00:00+00:00", rows=1_100_000),
        rules=(
            {"rule": f"missing:value{odd}", "holds": f"`value` IS NOT NULL{odd}", "owner": odd},
        ),
        kinds=(
            KindOfRecord(kind=f"refund{odd}", rows=1_204, goes="no table takes it", homeless=True),
            KindOfRecord(kind="order_created", rows=1_200_000, goes="a table takes it"),
        ),
        drift=(
            Drift(
                model=f"unusual_traffic{odd}",
                version=f"704a97af9fe3{odd}",
                of=f"kilobytes_out{odd}",
                rows=5_441,
                psi=0.2512,
                warns=True,
                learnt=(0.5, 0.5),
                shares=(0.25, 0.75),
            ),
        ),
    )
