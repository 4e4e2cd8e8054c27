"""Ports on loopback: whether one is free, and which."""

import socket

from strandline.core.errors import DefinitionError
from strandline_infra.broker import HOST


def refuse_taken(port: int | None) -> None:
    """Refuse a port that is taken; None means any port and is never refused.

    Raises:
        DefinitionError: The port cannot be used.
    """
    if port is None:
        return
    try:
        bind(port)
    except (OSError, OverflowError) as error:
        raise DefinitionError(
            f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}",
            hint="name another port with --port; without it a free port is used.",
            port=port,
        ) from error


def free(wanted: int) -> int:
    """Return the wanted port, or any other that is free."""
    try:
        return bind(wanted)
    except OSError:
        return bind(0)


def bind(port: int) -> int:
    """Bind a port for a moment, any free one for 0, and return its number."""
    with socket.socket() as probe:
        # As Java does: a port is taken by a listener, not by connections that are still closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        return int(probe.getsockname()[1])
