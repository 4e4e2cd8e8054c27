"""The requests that reach an object store, counted: by what is asked, of which part of a lake, and by which program."""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.relay import relaying

PARTS = (
    ("commit of a log", r"_delta_log/\d{20}\.json$"),
    ("checksum of a log", r"_delta_log/\d{20}\.crc$"),
    ("_last_checkpoint", r"_delta_log/_last_checkpoint$"),
    ("checkpoint of a log", r"_delta_log/.*\.parquet$"),
    ("folder of a log", r"_delta_log(/[^/]*)?$"),
    ("data file", r"\.parquet$"),
    ("Spark's offsets", r"_checkpoints/[^/]+/(sources/\d+|offsets)(/|$)"),
    ("Spark's commits", r"_checkpoints/[^/]+/commits(/|$)"),
    ("Spark's state", r"_checkpoints/[^/]+/state(/|$)"),
    ("Spark's metadata", r"_checkpoints/[^/]+(/metadata)?$"),
    ("turn to commit", r"_commit\.lock$"),
    ("lease", r"_leases/"),
    ("heartbeat", r"_stream\.json$"),
)
OTHER = "another file of ours"
PROGRAMS = {"Hadoop": "Hadoop", "object_store": "obstore"}


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """A kind of request.

    Args:
        method: GET, HEAD, PUT, DELETE, COPY, or LIST.
        part: Which part of the lake.
        key: The key below the bucket; of a listing, its prefix.
        program: Who asks: Hadoop's client, or obstore, which delta-rs has as well.
    """

    method: str
    part: str
    key: str
    program: str


def request_of(head: str) -> Request:
    """Return the kind of a request, from its head.

    >>> request_of("GET /lakes/a/bronze/t/_delta_log/_last_checkpoint HTTP/1.1")
    Request(method='GET', part='_last_checkpoint', key='a/bronze/t/_delta_log/_last_checkpoint', program='another')
    >>> request_of("GET /lakes?list-type=2&prefix=a%2Fbronze%2Ft%2F_delta_log%2F HTTP/1.1").method
    'LIST'
    """
    line, *lines = head.split("\r\n")
    method, target, _ = line.split(" ", 2)
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    at = urlsplit(target)
    words = parse_qs(at.query, keep_blank_values=True)
    key = unquote(at.path).strip("/").partition("/")[2]
    if method == "GET" and ("list-type" in words or "prefix" in words):
        method, key = "LIST", words.get("prefix", [""])[0]
    elif method == "POST" and "delete" in words:
        method = "DELETE"
    elif "x-amz-copy-source" in headers:
        method = "COPY"
    agent = headers.get("user-agent", "")
    program = next((name for word, name in PROGRAMS.items() if word in agent), "another")
    return Request(method=method, part=part_of(key), key=key, program=program)


def part_of(key: str) -> str:
    """Return the part of a lake in which an object is."""
    trimmed = key.rstrip("/")
    return next((name for name, pattern in PARTS if re.search(pattern, trimmed)), OTHER)


class Requests:
    """What was counted so far."""

    def __init__(self) -> None:
        """Begin with none."""
        self.address = ""
        self._lock = threading.Lock()
        self._counted: Counter[Request] = Counter()

    def add(self, head: str) -> bool:
        """Count a request; its answer is passed on."""
        found = request_of(head)
        with self._lock:
            self._counted[found] += 1
        return True

    def all(self) -> Counter[Request]:
        """Return how many there were of each request."""
        with self._lock:
            return self._counted.copy()

    def now(self) -> Counter[tuple[str, str, str]]:
        """Return how many there were by method, part and program."""
        found: Counter[tuple[str, str, str]] = Counter()
        for each, n in self.all().items():
            found[each.method, each.part, each.program] += n
        return found


@contextmanager
def counting(server: str) -> Iterator[Requests]:
    """Count for the length of the block what passes through ``address``, in front of a server."""
    found = Requests()
    with relaying(server, found.add) as relay:
        found.address = relay.address
        yield found
