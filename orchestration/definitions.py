"""All definitions for Dagster.

The executor runs in the process of the run, because an executor with more processes would start a JVM for every
asset. ``dagster dev -m orchestration.definitions`` serves it.
"""

from dagster import Definitions, in_process_executor

from orchestration import vitals, well
from orchestration.alarms import alert_again, alert_of_failures
from orchestration.alerting import alerting
from orchestration.assets import assets
from orchestration.expiry import expire_nightly, expiry
from orchestration.model_assets import model_assets
from orchestration.nightly import CERTIFY_NIGHTLY, RE_READ, certify, re_read_nightly
from orchestration.on_call import JOBS
from orchestration.purge import PURGE, PURGE_OFTEN
from orchestration.reporting import REPORT, every_morning
from orchestration.resources import RESOURCES
from orchestration.retention import retention, retention_checks, watch_retention
from orchestration.schedules import CATCH_UP, every_quarter_of_an_hour
from orchestration.topics import look_at_topics, topics
from orchestration.upkeep import maintain_often, maintenance
from orchestration.vitals import look_at_tables
from orchestration.watchdog import watchdog
from orchestration.written import look_at_the_stream

ALERTING = alerting()

DEFINITIONS = Definitions(
    assets=[well.spec(), *topics(ALERTING.sources), *assets(), *model_assets(), *ALERTING.assets],
    asset_checks=[well.check(), *vitals.checks(), *retention_checks(), *ALERTING.checks],
    jobs=[
        CATCH_UP,
        RE_READ,
        certify,
        REPORT,
        maintenance,
        expiry,
        PURGE,
        *JOBS,
        retention,
        *ALERTING.jobs,
    ],
    schedules=[
        every_quarter_of_an_hour,
        re_read_nightly,
        CERTIFY_NIGHTLY,
        every_morning,
        maintain_often,
        expire_nightly,
        PURGE_OFTEN,
    ],
    sensors=[
        well.look_whether_it_is_well,
        look_at_topics,
        look_at_the_stream,
        look_at_tables,
        watchdog,
        watch_retention,
        alert_of_failures,
        alert_again,
        *ALERTING.sensors,
    ],
    resources=RESOURCES,
    executor=in_process_executor,
)
