"""Spark's Thrift server over a lake: JDBC and ODBC clients ask, and change nothing.

What must be in the JVM is there (infra/strandline_infra/spark/server): the guard that refuses every plan but a query of the views, the check of
passwords, and the service that drops what a client sends beside its statement. Here is the rest: the session with its options, the
views, and the log of unmasked access.

Why a Spark of its own, with one core and a low priority: it runs beside a stream, which must not wait for it.
"""

import hashlib
import json
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.table import Table
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.lake_views import SCHEMAS, View, sources, view_at, view_of
from strandline.engine.ask.moments import chosen, which_of
from strandline.engine.ask.named_moments import refuse_unreadable
from strandline.engine.lake.duckdb_table import unreadable_errors
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.order_log import attempted, roles_of, write_down
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import hold
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.jvm import classic, jvm, loss, pid_of
from strandline.engine.runtime.outage import first_line
from strandline.engine.runtime.processes import NICE, let_give_way
from strandline.engine.runtime.roles import Role, RoleError
from strandline.engine.runtime.settings import Settings
from strandline.engine.runtime.spark_session import Added
from strandline_infra import java
from strandline_infra.installation import SetupError

# Who may ask the SQL server, and who of them sees sensitive columns.
#
# A file beside the lake's logs has a salted hash of each password (PBKDF2, which Java and Python both have). The server reads it anew
# when it has changed, so a user who is removed is refused at once (infra/strandline_infra/spark/server/Users.scala).


ROUNDS = 300_000
"""Some 0.1 s of one core for each guess; the server does it once a user and remembers."""
SHORTEST = 8
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def place_of(lake: Lake) -> Place:
    """Return the file."""
    return lake.near / "_serve" / "users.json"


def users(lake: Lake) -> dict[str, dict[str, Any]]:
    """Return the users by name; none where none was added."""
    text = place_of(lake).text()
    return {} if text is None else dict(json.loads(text))


def refuse_without_users(lake: Lake) -> None:
    """Refuse a lake without users.

    Raises:
        DefinitionError: There are no users.
    """
    if not users(lake):
        raise DefinitionError(
            f"no user may ask {lake.root} over JDBC yet",
            hint="`strandline serve add-user NAME` asks for a password.",
        )


def add(lake: Lake, name: str, password: str, *, unmasked: str | None = None) -> None:
    """Add a user, or give one another password and role.

    Args:
        lake: The lake.
        name: The user's name.
        password: The password, of which only a hash is kept.
        unmasked: Why the user sees sensitive columns; None for one who does not.

    Raises:
        DefinitionError: The name, the password or the reason cannot be one.
    """
    if not NAME.fullmatch(name):
        raise DefinitionError(
            f"{name!r} is no name of a user",
            hint="letters, digits and . _ @ - are allowed, at most 64.",
        )
    if len(password) < SHORTEST:
        raise DefinitionError(
            f"a password has {SHORTEST} characters or more", hint="choose a longer one."
        )
    if unmasked is not None and not unmasked.strip():
        raise DefinitionError(
            "sensitive columns are shown for a reason only",
            hint='give the reason: --unmasked "fraud team"',
        )
    salt = secrets.token_bytes(16)
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    user = {"salt": salt.hex(), "hash": digest.hex(), "rounds": ROUNDS, "unmasked": unmasked}
    with _alone(lake):
        _write(lake, {**users(lake), name: user})


def remove(lake: Lake, name: str) -> None:
    """Remove a user.

    Raises:
        DefinitionError: There is none of this name.
    """
    with _alone(lake):
        known = users(lake)
        if name not in known:
            raise DefinitionError(
                f"there is no user {name}",
                hint="the users are " + (", ".join(known) or "none") + ".",
            )
        _write(lake, {each: user for each, user in known.items() if each != name})


def _alone(lake: Lake) -> AbstractContextManager[None]:
    """Let one process at a time read the users and write them: of two that were added at once one was lost."""
    return hold(place_of(lake).parent / "users.lock")


def _write(lake: Lake, known: dict[str, dict[str, Any]]) -> None:
    place_of(lake).parent.make().local.chmod(stat.S_IRWXU)  # a hash can be guessed at
    place_of(lake).put(json.dumps(known, indent=1))


def _stamp(file: Place) -> str:
    try:
        return file.stamp()
    except FileNotFoundError:
        return ""


def admitted(lake: Lake) -> Place:
    """Return the file with the users whom the roles of a lake let in; that of all users where it has no roles.

    Raises:
        DefinitionError: The file of the roles cannot be read.
    """
    roles = roles_of(lake)
    if roles.people is None:
        return place_of(lake)
    known = {
        name: each if roles.allows(name, Role.UNMASK) else {**each, "unmasked": None}
        for name, each in users(lake).items()
        if roles.allows(name, Role.READ)
    }
    file = place_of(lake).parent / "admitted.json"
    file.put(json.dumps(known, indent=1))
    return file


LOOK = timedelta(seconds=30)
"""How often a new table, or a changed one, is looked for; rows of known ones are fresh at once. A look opens each table once."""

AT_ONCE = 4
"""Moments at which sessions of one role read at the same time: Spark keeps what it has of each catalog until its end, so there are few."""

PINS = (
    "SET strandline.moment = 'LATEST', a time in UTC, or a number or a name of `strandline moments`; "
    "RESET strandline.moment goes back to what there is"
)

PASSWORD = "strandline"  # noqa: S105  # of a key store in a folder that only this user reads, made anew at each start


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a server listens, and what it answers.

    Args:
        host: The address on which it listens.
        port: The port.
        timeout: Seconds after which a query is ended.
        rows: Most rows of an answer.
        nice: How much it gives way to other programs: 0 not at all, 19 most.
        certificate: The file of its certificate, with its chain; None for no TLS.
        key: The file of the certificate's key.
    """

    host: str
    port: int
    timeout: int
    rows: int
    nice: int = NICE
    certificate: str | None = None
    key: str | None = None

    @property
    def url(self) -> str:
        """Return the address that a client needs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"jdbc:hive2://{host}:{self.port}/" + (";ssl=true" if self.certificate else "")


class SqlServer:
    """A server that runs."""

    def __init__(
        self,
        found: Settings,
        lake: Lake,
        tables: tuple[Table, ...],
        terms: Terms,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start it; ``note`` is called with a line about a table that cannot be shown.

        Raises:
            DefinitionError: It cannot be started.
        """
        self._lake, self._tables, self._note = lake, tables, note
        self._salt = secrets.token_hex()
        self._made: dict[tuple[bool, str, str], str] = {}
        self._noted: dict[str, str] = {}
        self._refused: dict[str, datetime] = {}
        self._looked_at: datetime | None = None
        self._besides: dict[Place, bool] = {}
        self._pinned: dict[tuple[bool, str, str], Any] = {}
        """What has the views of a moment, by whether they show sensitive columns, its name and its versions; the last used last."""
        self._spark = self._started(found, terms)
        self._own: Any = jvm(self._spark).strandline
        self._inside: Any = jvm(self._spark).org.apache.spark.sql.hive.thriftserver
        self._questions, self._moments = self._inside.Unmasked, self._inside.AtMoment
        self._inside.LakeServer.begin(classic(self._spark))
        self._own.Admission.limit(terms.rows)
        self._own.ClientError.hide([self._salt, str(lake.root)])
        for each in SCHEMAS:
            self._own.Roots.database(each)
        self._admitted = ""
        self._admit()
        self.renew()
        self._server = self._listening(terms)
        # Last, because a start with a low priority takes minutes on a busy machine.
        let_give_way(pid_of(self._spark), terms.nice)

    def turn(self, now: datetime) -> None:
        """Write down the questions that wait for it and who was not let in, pin sessions to moments, look for new tables now and then; users who came or went at once."""
        if self._lake.root.is_local or self._looked_at is None or now - self._looked_at >= LOOK:
            self._admit()
        for question in iter(self._questions.next, None):
            asked, why = {"sql": question.sql()}, question.why()
            try:
                write_down(self._lake, asked, who=question.who(), at=now, why=why, over="jdbc")
            except (OSError, RoleError) as error:  # a question that is not written down is refused
                self._say("the log of unmasked access", f"cannot be written: {error}")
            else:
                question.written()
        for asked_for in iter(self._moments.next, None):
            self._pin(asked_for)
        for name in iter(self._own.Users.nextRefused, None):
            self._note_refused(str(name), now)
        pause = timedelta(seconds=self._lake.pause(LOOK.total_seconds()))
        is_due = self._looked_at is None or now - self._looked_at >= pause
        if is_due or (self._lake.root.is_local and self._came_or_went()):
            self._looked_at = now
            self.renew()

    def _admit(self) -> None:
        """Let the users in whom the roles of the lake let read, unmasked whom they let unmask; without roles all as they were added."""
        given, file = "", place_of(self._lake).parent / "no one"
        try:
            given = f"{_stamp(place_of(self._lake))} {_stamp(self._lake.roles)}"
            if given == self._admitted:
                return
            file = admitted(self._lake)
        except TransientError as error:
            # Who was let in stays: of a store that is away nothing can be asked.
            self._say("the roles of the lake", f"cannot be read now: {error.message}")
            return
        except DefinitionError as error:
            self._say("the roles of the lake", f"let no one in: {error.message}")
        self._own.Users.readFrom(str(file))
        self._admitted = given

    def _note_refused(self, name: str, now: datetime) -> None:
        """Write down who was not let in: a user, now and then; a name that is none is a stranger's text, of which there is no end."""
        if name not in users(self._lake) or now - self._refused.get(name, now - LOOK) < LOOK:
            return
        self._refused[name] = now
        message = "the password is another one"
        try:
            roles_of(self._lake).refuse(name, Role.READ, "a log-in over JDBC")
        except LakeError as error:
            message = error.message
        attempted(self._lake, "log in", who=name, at=now, over="jdbc", message=message)

    def renew(self) -> None:
        """Make the views of new tables, and those of tables that have other columns than before."""
        for name, source in sources(self._tables, self._lake).items():
            if source.beside is not None:
                self._besides[source.beside] = is_table(source.beside)
            try:
                view = view_of(name, source, self._tables, self._lake, self._salt)
                if view is not None:
                    self._make(view)
            except (*unreadable_errors(), PySparkException, Py4JJavaError) as error:
                if loss(error):
                    raise
                self._say(name, f"cannot be shown: {first_line(error)}")

    def _pin(self, asked: Any) -> None:  # noqa: ANN401  # py4j's objects have no types
        """Give the views of the moment that a session asks for, or the reason why there are none."""
        try:
            moment = chosen(which_of(asked.text()), (), self._tables, self._lake)
            root = self._root_at(moment, sees_clear=bool(asked.seesClear()))
        except LakeError as error:
            asked.refuse(f"{error.message} ({PINS})")
        except (*unreadable_errors(), PySparkException, Py4JJavaError) as error:
            if loss(error):
                raise
            asked.refuse(f"no session reads at that moment: {first_line(error)}")
        else:
            asked.done(root, str(moment))

    def _root_at(self, moment: Moment, *, sees_clear: bool) -> Any:  # noqa: ANN401  # as above
        """Return the session of Spark with the views of a moment, made where there is none yet.

        Raises:
            DefinitionError: A version of it can be read no more, or sessions read at too many others.
        """
        refuse_unreadable(moment, self._lake)
        parts = [dict(moment.versions), sorted(moment.lost)]
        key = (sees_clear, moment.name, json.dumps(parts, sort_keys=True))
        root = self._pinned.pop(key, None)
        if root is None:
            root = self._free_root(sees_clear=sees_clear)
            for name, source in sources(self._tables, self._lake).items():
                try:
                    view = view_at(
                        name, source, self._tables, self._lake, self._salt, moment=moment
                    )
                    if view is not None:
                        text = view.clear if sees_clear else view.masked
                        root.view(view.database, view.name, text)
                except (*unreadable_errors(), PySparkException, Py4JJavaError) as error:
                    if loss(error):
                        raise
                    self._say(f"{name} at {moment}", f"cannot be shown: {first_line(error)}")
        self._pinned[key] = root
        return root

    def _free_root(self, *, sees_clear: bool) -> Any:  # noqa: ANN401  # as above
        """Return a session of Spark without views: a new one, or that of a moment at which no session reads any more."""
        own = [key for key in self._pinned if key[0] == sees_clear]
        if len(own) < AT_ONCE:
            return self._moments.root(sees_clear)
        free = next((key for key in own if self._pinned[key].isFree()), None)
        if free is None:
            raise DefinitionError(
                f"sessions read at {AT_ONCE} other moments",
                hint="end one, or let it read another.",
            )
        root = self._pinned.pop(free)
        root.empty()
        return root

    def _came_or_went(self) -> bool:
        """Return whether the provisional rows of a table are there that were not, or are gone, on which a view would fail."""
        return any(is_table(place) != was for place, was in self._besides.items())

    def _make(self, view: View) -> None:
        for is_clear, text in ((False, view.masked), (True, view.clear)):
            key = (is_clear, view.database, view.name)
            if self._made.get(key) != text:
                self._own.Roots.view(*key, text)
                self._made[key] = text

    def _say(self, what: str, how: str) -> None:
        """Say what is wrong with something, once."""
        if self._noted.get(what) != how:
            self._noted[what] = how
            self._note(f"{what} {how}")

    @property
    def _scratch(self) -> Place:
        return self._lake.near / "_logs" / "scratch"

    def stop(self) -> None:
        """End all queries and connections, and Spark."""
        self._server.stop()
        self._spark.stop()

    def _started(self, found: Settings, terms: Terms) -> SparkSession:
        """Start a Spark of threads, whose sessions take the guard."""
        try:
            own = java.server_class_path()
        except SetupError as error:
            raise DefinitionError(error.message, hint=error.hint) from error
        usual = spark_session.TUNED["spark.sql.extensions"]
        options = {
            # Java's engine hears neither a time limit nor a signal, and one pattern can keep it busy for days.
            "spark.sql.extensions": f"{usual},{java.LINEAR_ONLY},{java.GUARD}",
            # Otherwise '${env:AWS_SECRET_ACCESS_KEY}' in a query is the key.
            "spark.sql.variable.substitute": "false",
            "spark.sql.thriftServer.queryTimeout": f"{terms.timeout}s",
            # Results of twenty clients are in memory at once.
            "spark.driver.maxResultSize": "128m",
            # EXPLAIN shows neither the salt of the masks nor where the lake is.
            "spark.redaction.string.regex": f"{self._salt}|{re.escape(str(self._lake.root))}",
            # A second lock behind the guard, where the lake is a folder.
            "spark.hadoop.fs.file.impl": java.READ_ONLY_FILES,
            "spark.hadoop.strandline.scratch": str(self._scratch),
        }
        alone = replace(found, master=None)
        log = self._lake.program_log("serve")
        return spark_session.start(alone, log, added=Added(options=options, jars=own))

    def _listening(self, terms: Terms) -> Any:  # noqa: ANN401  # py4j's objects have no types
        scratch = (self._scratch / f"serve-{terms.port}").make()
        options = {
            "hive.server2.thrift.bind.host": terms.host,
            "hive.server2.thrift.port": str(terms.port),
            "hive.server2.authentication": "CUSTOM",
            "hive.server2.custom.authentication.class": java.USERS,
            "hive.server2.enable.doAs": "false",
            "hive.server2.allow.user.substitution": "false",
            "hive.server2.logging.operation.enabled": "false",
            "hive.server2.thrift.max.worker.threads": "200",
            "hive.exec.scratchdir": str(scratch / "scratch"),
            "hive.exec.local.scratchdir": str(scratch / "local"),
            "hive.downloaded.resources.dir": str(scratch / "resources"),
            # Otherwise the first call for metadata starts a metastore, to ask it for rights that no user has.
            "hive.internal.ss.authz.settings.applied.marker": "true",
            "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:none;create=true",
        }
        if terms.certificate and terms.key:
            store = scratch / "server.p12"
            self._keep(terms.certificate, terms.key, store)
            options |= {
                "hive.server2.use.SSL": "true",
                "hive.server2.keystore.path": str(store),
                "hive.server2.keystore.password": PASSWORD,
            }
        return self._inside.LakeServer.listen(options)

    def _keep(self, certificate: str, key: str, store: Place) -> None:
        try:
            self._own.Tls.store(certificate, key, str(store), PASSWORD)
        except (PySparkException, Py4JJavaError) as error:
            raise DefinitionError(
                f"the certificate {certificate} and the key {key} cannot be used: {first_line(error)}",
                hint="both are PEM; a key of another form becomes PKCS#8 by: openssl pkcs8 -topk8 -nodes -in KEY -out server.key",
            ) from error
