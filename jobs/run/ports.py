"""Ports on loopback: whether one can be had, and which."""

import socket

from infra.broker import HOST
from jobs.core.errors import DefinitionError


def refuse_taken(port: int | None) -> None:
    """See that a port can be had; nothing is to be seen where any is right.

    Raises:
        DefinitionError: It cannot.
    """
    if port is None:
        return
    try:
        bind(port)
    except (OSError, OverflowError) as error:
        raise DefinitionError(
            f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}",
            hint="name another port with --port, or none, and a free one is taken.",
            port=port,
        ) from error


def free(wanted: int) -> int:
    """Return the wanted port, or any other that is free."""
    try:
        return bind(wanted)
    except OSError:
        return bind(0)


def bind(port: int) -> int:
    """Take a port for a moment, any free one for 0, and return which it was."""
    with socket.socket() as probe:
        # As Java does it: connections that are still closing do not make a port taken, a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        return int(probe.getsockname()[1])
