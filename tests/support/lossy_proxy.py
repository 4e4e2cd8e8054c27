"""A proxy on loopback that loses some answers: the server has done what was asked, and the client never hears of it."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from infra.broker import HOST

CHUNK = 65_536


class LossyProxy:
    """Such a proxy.

    Args:
        server: The address of the server.
        loses: Returns for the first line of a request whether its answer is lost.
    """

    def __init__(self, server: str, loses: Callable[[str], bool]) -> None:
        """Listen on a free port."""
        at = urlsplit(server)
        self._to = (at.hostname or HOST, at.port or 80)
        self._loses = loses
        self._socket = socket.create_server((HOST, 0))
        self.address = f"{at.scheme}://{HOST}:{self._socket.getsockname()[1]}"
        self.lost = 0
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
            is_lost = False
            while True:
                ready, _, _ = select.select([client, server], [], [], 60)
                for one in ready:
                    content = one.recv(CHUNK)
                    if not content:
                        return
                    if one is client:
                        line = content.partition(b"\r\n")[0].decode(errors="replace")
                        is_lost = is_lost or self._loses(line)
                        server.sendall(content)
                    elif is_lost and not content.startswith(b"HTTP/1.1 100"):
                        self.lost += 1
                        return
                    else:
                        client.sendall(content)
                if not ready:
                    return


@contextmanager
def losing(server: str, loses: Callable[[str], bool]) -> Iterator[LossyProxy]:
    """Run such a proxy for the length of the block."""
    proxy = LossyProxy(server, loses)
    try:
        yield proxy
    finally:
        proxy.close()
