"""All definitions for Dagster.

The executor runs in the process of the run, because an executor with more processes would start a JVM for every
asset. ``dagster dev -m strandline_dagster.definitions`` serves it.
"""

from dagster import Definitions, in_process_executor

from strandline_dagster import vitals
from strandline_dagster.alarms import alert_again, alert_of_failures
from strandline_dagster.alerting import alerting
from strandline_dagster.assets import assets, look_at_the_stream, model_assets, static_assets
from strandline_dagster.purge import PURGE, PURGE_OFTEN
from strandline_dagster.resources import RESOURCES
from strandline_dagster.schedules import (
    CATCH_UP,
    CERTIFY_NIGHTLY,
    RE_READ,
    REPORT,
    certify,
    every_morning,
    every_quarter_of_an_hour,
    expire_nightly,
    expiry,
    maintain_often,
    maintenance,
    re_read_nightly,
)
from strandline_dagster.topics import (
    look_at_topics,
    retention,
    retention_checks,
    topics,
    watch_retention,
)
from strandline_dagster.vitals import look_at_tables
from strandline_dagster.watchdog import JOBS, watchdog

ALERTING = alerting()

DEFINITIONS = Definitions(
    assets=[
        vitals.spec(),
        *topics(ALERTING.sources),
        *static_assets(),
        *assets(),
        *model_assets(),
        *ALERTING.assets,
    ],
    asset_checks=[vitals.check(), *vitals.checks(), *retention_checks(), *ALERTING.checks],
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
        vitals.look_whether_it_is_well,
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
