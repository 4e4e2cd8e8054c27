"""A certificate of a server on loopback, its key, and the trust store of a Java that believes it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

PASSWORD = "changeit"  # noqa: S105  # of a trust store, which holds no secret
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Files in PEM, and a trust store."""

    certificate: Path
    key: Path
    trusted: Path

    @property
    def options(self) -> str:
        """Return what Hive's driver needs in an address."""
        return f";ssl=true;sslTrustStore={self.trusted};trustStorePassword={PASSWORD}"


def self_signed(who: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate of a name on loopback that signs itself and lasts an hour, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, who)])
    now = datetime.now(UTC)  # noqa: TID251  # when a certificate holds is about the real clock
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), False)
        .sign(key, hashes.SHA256())
    )
    return signed, key


def made(folder: Path) -> Certificate:
    """Make one that signs itself and lasts an hour."""
    files = Certificate(
        certificate=folder / "server.crt", key=folder / "server.key", trusted=folder / "trusted.p12"
    )
    signed, key = self_signed(HOST)
    files.certificate.write_bytes(signed.public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    believed = [pkcs12.PKCS12Certificate(signed, b"server")]
    locked = BestAvailableEncryption(PASSWORD.encode())
    files.trusted.write_bytes(pkcs12.serialize_java_truststore(believed, locked))
    return files
