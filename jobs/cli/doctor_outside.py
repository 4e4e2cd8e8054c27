"""What ``doctor`` tries outside of this machine and of the lake: the cluster, the receiver of notices, the rules."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

from infra.setup import Check
from jobs.core import project
from jobs.engine.runtime.settings import Settings

PATIENCE = 3.0
PORTS = {"https": 443, "http": 80, "k8s": 443, "spark": 7077}


def outside(found: Settings) -> list[Check]:
    """Try what the settings name; what they do not name is not listed."""
    checks = []
    if found.master is not None:
        checks.append(_cluster(found.master))
    if found.webhook is not None:
        checks.append(_webhook(found.webhook))
    if found.rules is not None and project.is_example():
        checks.append(_rules(found.rules))
    return checks


def _cluster(master: str) -> Check:
    """Connect to a master; a standalone cluster may have several, of which one is enough."""
    scheme, _, rest = master.partition("://")
    inner, _, address = rest.rpartition("://")
    hosts = [each.strip("/").partition(":") for each in address.split(",")]
    places = [(host, int(port or PORTS[inner or scheme])) for host, _, port in hosts]
    reasons = [_unreachable(host, port) for host, port in places]
    if not all(reasons):
        return Check(name="cluster", ok=True, detail=f"{master} takes connections")
    return Check(
        name="cluster",
        ok=False,
        detail=f"{master} takes no connection: {reasons[0]}",
        hint="see that the cluster runs and that its port is open from here, or correct `master`.",
    )


def _webhook(address: str) -> Check:
    """Connect to the receiver and send nothing; its path may be a secret, and is not shown."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    except ValueError as error:
        return Check(name="webhook", ok=False, detail=str(error), hint="correct the address.")
    reason = _unreachable(host, port)
    if reason:
        hint = "see that it runs and that its port is open from here, or correct `webhook`."
        return Check(
            name="webhook",
            ok=False,
            detail=f"{host}:{port} takes no connection: {reason}",
            hint=hint,
        )
    return Check(
        name="webhook", ok=True, detail=f"{host}:{port} takes connections; nothing was sent"
    )


def _rules(folder: str) -> Check:
    # Not imported above: most settings name no rules.
    from jobs.rules.sigma.files import UnreadableError  # noqa: PLC0415  # as above
    from jobs.rules.sigma.folder import read_folder  # noqa: PLC0415  # as above

    try:
        read = read_folder(Path(folder), patience=None)
    except (UnreadableError, OSError) as error:
        return Check(name="rules", ok=False, detail=str(error), hint="correct `rules`.")
    refused = len(read.refused)
    hint = "`strandline rules lint` names each with its reason." if refused else ""
    detail = f"{len(read.every)} rules in {folder}, {refused} refused"
    return Check(name="rules", ok=not refused, detail=detail, hint=hint)


def _unreachable(host: str, port: int) -> str:
    """Return why a port takes no connection; empty if it does."""
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error) or "it does not answer"
    return ""
