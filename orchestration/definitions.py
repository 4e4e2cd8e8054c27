"""Everything that Dagster knows of this project.

The executor runs in the process of the run, because an executor with processes of its own would start a JVM for
every asset. ``dagster dev -m orchestration.definitions`` serves it.
"""

from dagster import Definitions, in_process_executor

from orchestration.assets import assets
from orchestration.resources import RESOURCES
from orchestration.schedules import CATCH_UP, every_quarter_of_an_hour
from orchestration.topics import look_at_topics, topics

DEFINITIONS = Definitions(
    assets=[*topics(), *assets()],
    jobs=[CATCH_UP],
    schedules=[every_quarter_of_an_hour],
    sensors=[look_at_topics],
    resources=RESOURCES,
    executor=in_process_executor,
)
