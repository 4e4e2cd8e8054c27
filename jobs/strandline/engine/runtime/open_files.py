"""How many files a process with Spark may hold open, and how many tables that carries.

Each table of a stream has a thread of Python and one of the JVM, which talk over two sockets; a bronze table has clients of
Kafka, and one with state has the files of its store. The usual limit of 1,024 carries some fifty tables. It is only the soft one,
which a process may raise by itself up to the hard one, as the JVM does; so only the hard one is a reason to refuse.
"""

import resource
import sys

from strandline.core.errors import DefinitionError

AT_ALL = 400
"""Files that a stream holds open whatever it runs: jars, the JVM's own, connections of Spark's parts."""

EACH = 20
"""Files for each table more, in the process that needs the more of the two, the JVM."""

MOST = 10_240 if sys.platform == "darwin" else 65_536
"""What is asked for where more is allowed: some programs that are started close all descriptors one by one. The kernel of macOS says
that any number may be had and refuses all above its own."""


def raise_limit() -> int:
    """Raise the soft limit of open files of this process, and of those that it starts; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def allowed() -> int:
    """Return how many files this process may hold open once it has raised its limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in {soft, hard}:
        return MOST
    return max(soft, min(hard, MOST))


def needed(tables: int) -> int:
    """Return how many files a stream of so many tables may hold open."""
    return AT_ALL + EACH * tables


def carried(files: int) -> int:
    """Return how many tables so many open files carry in one stream."""
    return max((files - AT_ALL) // EACH, 0)


def refuse_too_many(tables: int) -> None:
    """Refuse a stream of more tables than the files carry that this process may open, before anything of it starts.

    Raises:
        DefinitionError: The hard limit is too low.
    """
    files, wanted = allowed(), needed(tables)
    if files >= wanted:
        return
    raise DefinitionError(
        f"a stream of {tables:,} tables may hold {wanted:,} files open, and this process may have {files:,}",
        hint=f"raise the hard limit to {wanted:,} (`ulimit -Hn`, LimitNOFILE= of systemd, `--ulimit nofile=` of a container), "
        f"or share the tables out over several streams, each of at most {carried(files):,} of them.",
        tables=tables,
        needed=wanted,
        allowed=files,
    )
