"""How the addresses in the settings are written: of a Spark cluster, of Dagster's database, of an object store."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

MASTER = re.compile(
    r"spark://[^\s:,/@]+:\d{1,5}(?:,[^\s:,/@]+:\d{1,5})*|k8s://(?:https?://)?[^\s:,/@]+(?::\d{1,5})?/?"
)
"""Spark's own addresses of a standalone cluster, with all of its masters, and of Kubernetes."""
POSTGRES = re.compile(
    r"""postgresql://
    (?P<user>(?:[^\s:@/?#%]|%[0-9A-Fa-f]{2})+)
    (?::(?P<password>(?:[^\s:@/?#%]|%[0-9A-Fa-f]{2})+))?
    @(?P<host>[^\s:@/?#%\[\]]+|\[[0-9A-Fa-f:]+\])
    (?::(?P<port>\d{1,5}))?
    /(?P<database>(?:[^\s:@/?#%]|%[0-9A-Fa-f]{2})+)
    (?:\?\S+)?""",
    re.VERBOSE,
)
"""Stricter than the driver, whose error message repeats the part of the address that it cannot parse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Where the object store is, by the variables that all AWS tools know; the keys stay in the environment.

    Args:
        endpoint: Its address; that of AWS when None.
        region: Its region.
    """

    endpoint: str | None
    region: str

    @property
    def is_plain(self) -> bool:
        """Return whether it is reached without TLS, such as one on loopback."""
        return self.endpoint is not None and urlsplit(self.endpoint).scheme == "http"
