"""A proxy on loopback that loses some answers: the server has done what was asked, and the client never hears of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.relay import Relay, relaying


@contextmanager
def losing(server: str, loses: Callable[[str], bool]) -> Iterator[Relay]:
    """Run such a proxy for the length of the block.

    Args:
        server: The address of the server.
        loses: Returns for the first line of a request whether its answer is lost.
    """
    with relaying(server, lambda head: not loses(head.partition("\r\n")[0])) as relay:
        yield relay
