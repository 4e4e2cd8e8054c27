"""Strandline under Airflow: the same command line, run on a schedule of Airflow.

Link this file into Airflow's folder of DAGs; it finds the program in the clone that it belongs to. Nothing of the
project is imported and nothing is installed beside Airflow, so the two need no common version of any package. The
worker's environment names the lake and Kafka (STRANDLINE_LAKE, STRANDLINE_KAFKA), as a person's does.

Tried with Airflow 3.3.2 and the versions in constraints.txt beside this file (tests/e2e/test_airflow.py).
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import DAG, BaseOperator, Context, Param, TriggerRule
from airflow.sdk.exceptions import AirflowException, AirflowFailException

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = PROJECT / ".venv" / "bin" / "strandline"
FIX, LOOK = 2, 4
"""Exit codes after which trying again changes nothing: code or settings must be corrected, or a person must decide (a
gate is shut, a balance does not hold, the numbers cannot be trusted). With any other the task is tried again."""


class Strandline(BaseOperator):
    """Runs one command of Strandline, with its output in the task's log."""

    template_fields: Sequence[str] = ("words",)

    def __init__(self, *, words: Sequence[str], **options: object) -> None:
        """Keep the words; each is one argument, and no shell parses them."""
        super().__init__(**options)
        self.words = words
        self._shell: SubprocessHook | None = None

    def execute(self, context: Context) -> None:  # noqa: ARG002  # the words are enough
        """Run it to its end.

        Raises:
            AirflowFailException: It failed, and would again.
            AirflowException: It failed, and may succeed later.
        """
        self._shell = SubprocessHook()
        ended = self._shell.run_command([str(PROGRAM), *self.words], cwd=str(PROJECT))
        outcome = f"strandline {' '.join(self.words)} ended with {ended.exit_code}: {ended.output}"
        if ended.exit_code in {FIX, LOOK}:
            raise AirflowFailException(outcome)
        if ended.exit_code != 0:
            raise AirflowException(outcome)

    def on_kill(self) -> None:
        """Stop the command; the next run continues where it stopped."""
        if self._shell is not None:
            self._shell.send_sigterm()


AGAIN = {"retries": 2, "retry_delay": timedelta(seconds=30)}

with DAG(
    "strandline",
    description="Bring every table up to date, prove where every event is, report whether the numbers can be trusted.",
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # a run reads the whole backlog, so the next one makes up for missed runs
    max_active_runs=1,
    default_args=AGAIN,
):
    run = Strandline(task_id="run", words=["run"])
    # Only after a successful run, so it also makes the DAG run fail when the run failed.
    ledger = Strandline(task_id="ledger", words=["ledger"])
    # After a failed run as well: on the day on which a gate is shut the page is needed most.
    report = Strandline(task_id="report", words=["report"], trigger_rule=TriggerRule.ALL_DONE)
    run >> [ledger, report]

with DAG(
    "strandline_backfill",
    description="Compute days of a table again, and the tables above it, while everything else runs on.",
    schedule=None,
    max_active_runs=1,
    default_args=AGAIN,
    params={
        "table": Param(
            type="string", pattern=r"^(silver|gold)\.\w+$", description="Such as silver.devices."
        ),
        "since": Param(type="string", format="date", description="The first day."),
        "until": Param(type="string", format="date", description="The day after the last."),
    },
):
    days = ["--since", "{{ params.since }}", "--until", "{{ params.until }}"]
    Strandline(task_id="backfill", words=["backfill", "{{ params.table }}", *days, "--downstream"])
