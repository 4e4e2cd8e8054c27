"""A relay on loopback between a client and a server of HTTP, which hears the head of each request before it is answered.

It passes the bytes on as they come. So a request that is signed for the address of the relay (Amazon's signature covers the
``Host``) reaches the server with that very ``Host``, and is valid there. A connection serves one request after the other: what a
client sends after an answer has begun is the next request, except for the body that it holds back until ``100 Continue``.
"""

import re
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from strandline_infra.programs import HOST

CHUNK = 65_536
BEGIN = re.compile(rb"[A-Z]+ \S+ HTTP/1\.[01]\r\n")
END = b"\r\n\r\n"


class Relay:
    """Such a relay.

    Args:
        server: The address of the server.
        answers: Gets the head of each request, and returns whether its answer is passed on; else the connection is closed.
        answered: Gets the same head when the server has begun to answer and the client has not heard of it, or when the
            connection has ended without.
        drops: A header that the server does not get, as behind an old proxy; empty for none.
    """

    def __init__(
        self,
        server: str,
        answers: Callable[[str], bool] = lambda _: True,
        answered: Callable[[str], object] = lambda _: None,
        *,
        drops: str = "",
    ) -> None:
        """Listen on a free port."""
        at = urlsplit(server)
        self._to = (at.hostname or HOST, at.port or 80)
        self._answers, self._answered = answers, answered
        self._drops = re.compile(rf"(?im)^{drops}:.*\r\n".encode()) if drops else None
        self._socket = socket.create_server((HOST, 0))
        self.address = f"{at.scheme}://{HOST}:{self._socket.getsockname()[1]}"
        self.lost = 0
        """How many answers were not passed on."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept nothing more."""
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._to) as server:
            talk = _Talk(client, server, self._answers, self._answered, self._drops)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while talk.goes_on:
                    ready, _, _ = select.select([client, server], [], [], 60)
                    if not ready:
                        return
                    for one in ready:
                        talk.pass_on(one)
            finally:
                talk.end_request()
        self.lost += talk.is_lost


class _Talk:
    """What a client and the server have to say on one connection."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        answers: Callable[[str], bool],
        answered: Callable[[str], object],
        drops: re.Pattern[bytes] | None,
    ) -> None:
        self._client = client
        self._server = server
        self._answers, self._answered = answers, answered
        self._drops = drops
        self._head = b""
        self._request: str | None = None
        self._is_refused = False
        self.goes_on = True
        self.is_lost = False

    def pass_on(self, one: socket.socket) -> None:
        """Pass on what came from one side."""
        content = _received(one)
        if not content:
            self.goes_on = False
        elif one is self._client:
            self._hear(content)
            self._server.sendall(self._drops.sub(b"", content) if self._drops else content)
        elif content.startswith(b"HTTP/1.1 100"):
            self._client.sendall(content)
        elif self._is_refused:
            self.goes_on, self.is_lost = False, True
        else:
            self.end_request()
            self._client.sendall(content)

    def end_request(self) -> None:
        """Say that the server has answered, or will not."""
        if self._request is not None:
            self._answered(self._request)
        self._request = None

    def _hear(self, content: bytes) -> None:
        """Ask about a request once its head is complete."""
        if self._request is not None:
            return
        self._head = self._head + content if self._head or BEGIN.match(content) else b""
        if END in self._head:
            words, self._head = self._head.partition(END)[0], b""
            self._request = words.decode(errors="replace")
            self._is_refused = not self._answers(self._request)


def _received(one: socket.socket) -> bytes:
    """Return what came; nothing where the other side has gone."""
    try:
        return one.recv(CHUNK)
    except ConnectionError:
        return b""


@contextmanager
def relaying(
    server: str,
    answers: Callable[[str], bool] = lambda _: True,
    answered: Callable[[str], object] = lambda _: None,
    *,
    drops: str = "",
) -> Iterator[Relay]:
    """Run such a relay for the length of the block."""
    relay = Relay(server, answers, answered, drops=drops)
    try:
        yield relay
    finally:
        relay.close()
