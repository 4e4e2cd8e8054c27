"""A real broker that asks who its clients are: by certificates, and by tokens of an issuer on loopback; and one that throttles.

It is the lake's own broker with more listeners. The issuer signs what it gives out, and the broker gets its public key from it,
as from any issuer of OpenID Connect.
"""

import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from strandline.core.errors import LakeError
from strandline.engine.kafka.broker import check_reachable
from strandline.engine.runtime.processes import free
from strandline_infra import java
from strandline_infra.programs import (
    HOST,
    PROPERTIES,
    format_command,
    java_with,
    properties,
    start_command,
)
from tests.support.certificate import self_signed

PATIENCE = 60.0
CLIENT, SECRET = "strandline", 's3\\cr"et'  # of an issuer that lives for a test
SECURED = """
listeners=PLAINTEXT://{host}:{port},MTLS://{host}:{mtls},TOKEN://{host}:{token},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port},MTLS://{host}:{mtls},TOKEN://{host}:{token}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,MTLS:SSL,TOKEN:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
listener.name.mtls.ssl.client.auth=required
listener.name.mtls.ssl.keystore.type=PEM
listener.name.mtls.ssl.keystore.location=server.pem
listener.name.mtls.ssl.truststore.type=PEM
listener.name.mtls.ssl.truststore.location=client.crt
listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.token.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.token.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.token.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={issuer}/keys
listener.name.token.oauthbearer.sasl.oauthbearer.expected.audience=kafka
listener.name.token.oauthbearer.sasl.oauthbearer.expected.issuer={issuer}
"""


def _word(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


class Issuer:
    """Gives tokens to who has the secret, and its public key to all."""

    def __init__(self, lasts: int = 300) -> None:
        """Begin to answer."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.lasts, self.given, self.refused = lasts, 0, 0
        issuer = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, issuer.keys())

            def do_POST(self) -> None:
                said = self.rfile.read(int(self.headers["Content-Length"])).decode()
                asked, who = parse_qs(said), self.headers.get("Authorization", "")
                expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
                if who != f"Basic {expected}" or asked["grant_type"] != ["client_credentials"]:
                    issuer.refused += 1
                    self._answer(401, {"error": "invalid_client"})
                else:
                    issuer.given += 1
                    self._answer(200, {"access_token": issuer.token(), "expires_in": issuer.lasts})

            def _answer(self, code: int, facts: Mapping[str, object]) -> None:
                text = json.dumps(facts).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer((HOST, 0), Answers)
        self.address = f"http://{HOST}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def keys(self) -> dict[str, object]:
        """Return its public key, as a set of keys."""
        numbers = self._key.public_key().public_numbers()
        n, e = (
            _word(each.to_bytes((each.bit_length() + 7) // 8)) for each in (numbers.n, numbers.e)
        )
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": n, "e": e}]}

    def token(self) -> str:
        """Return a token that it has signed."""
        now = int(time.time())
        claims = {"iss": self.address, "sub": CLIENT, "aud": "kafka", "scope": "lake", "iat": now}
        parts = ({"alg": "RS256", "typ": "JWT", "kid": "1"}, {**claims, "exp": now + self.lasts})
        text = ".".join(_word(json.dumps(each).encode()) for each in parts)
        signed = self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_word(signed)}"

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _signed(folder: Path, name: str, form: PrivateFormat = PrivateFormat.PKCS8) -> None:
    """Write a certificate that signs itself and lasts an hour, and its key."""
    made, key = self_signed(name)
    certificate = made.public_bytes(Encoding.PEM)
    secret = key.private_bytes(Encoding.PEM, form, NoEncryption())
    (folder / f"{name}.crt").write_bytes(certificate)
    (folder / f"{name}.key").write_bytes(secret)
    (folder / f"{name}.pem").write_bytes(secret + certificate)


@dataclass(slots=True)
class SecuredBroker:
    """A running broker."""

    folder: Path
    issuer: Issuer
    plain: str
    mtls: str
    token: str
    by_certificate: dict[str, str] = field(default_factory=dict)
    by_token: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Say what a client needs."""
        named = {"ca": "server.crt", "certificate": "client.crt", "key": "client.key"}
        files = {f"ssl.{what}.location": str(self.folder / name) for what, name in named.items()}
        self.by_certificate = {"security.protocol": "SSL", **files}
        oidc = {
            "method": "oidc",
            "client.id": CLIENT,
            "client.secret": SECRET,
            "scope": "lake",
            "token.endpoint.url": f"{self.issuer.address}/token",
        }
        self.by_token = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            **{f"sasl.oauthbearer.{name}": value for name, value in oidc.items()},
        }

    def throttle(self, client: str, rate: int) -> None:
        """Let a client read so many bytes a second, by Kafka's own tool."""
        home = java.java_home()
        assert home is not None
        words = ("--bootstrap-server", self.plain, "--alter", "--entity-type", "clients")
        what = ("--entity-name", client, "--add-config", f"consumer_byte_rate={rate}")
        command = [*java_with(home, java.broker_jars()), "kafka.admin.ConfigCommand", *words, *what]
        (self.folder / "tmp").mkdir(exist_ok=True)
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, timeout=60)


@contextmanager
def running(folder: Path) -> Iterator[SecuredBroker]:
    """Run one for the length of a block."""
    home, jars, issuer = java.java_home(), java.broker_jars(), Issuer()
    assert home is not None
    (folder / "tmp").mkdir()
    for name in ("server", "client", "stranger"):
        _signed(folder, name)
    ports = {"port": free(0)}
    for name in ("mtls", "token", "controller"):
        while (port := free(0)) in ports.values():
            pass
        ports[name] = port
    plain = properties(port=ports["port"], controller_port=ports["controller"], data="data")
    kept = [line for line in plain.splitlines() if not line.startswith(("listeners", "advertised"))]
    more = SECURED.format(host=HOST, issuer=issuer.address, **ports)
    (folder / PROPERTIES).write_text("\n".join(kept) + more)
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.address}/keys"
    command = java_with(home, jars, [allowed])
    cluster = _word(b"0123456789abcdef")
    subprocess.run(format_command(command, cluster), cwd=folder, check=True, capture_output=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            start_command(command, "-Dstrandline.test=secured"), cwd=folder, stdout=log, stderr=log
        )
    try:
        found = SecuredBroker(
            folder,
            issuer,
            *(f"{HOST}:{ports[name]}" for name in ("port", "mtls", "token")),
        )
        _await(found, process)
        yield found
    finally:
        process.kill()
        process.wait()
        issuer.close()


def _await(found: SecuredBroker, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return check_reachable(found.plain, {}, patience=1.0)
        except LakeError:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.stderr.write((found.folder / "log").read_text()[-3000:])
                raise
