"""Everything that Dagster knows of this project.

The executor runs in the process of the run, because an executor with processes of its own would start a JVM for
every asset. ``dagster dev -m orchestration.definitions`` serves it.
"""

from dagster import Definitions, in_process_executor

from orchestration.assets import assets
from orchestration.resources import LakeResource

DEFINITIONS = Definitions(
    assets=assets(), resources={"lake": LakeResource()}, executor=in_process_executor
)
