"""What is secret in a value that is written in plain text, found by its name and by its form.

Both are needed: the option ``basic.auth.user.info`` has a password by its meaning, and an address may have one before its host
or among its parameters. A name is judged whatever kind of value it has, because a password may be a number. Names that end like
those of a path are none: AWS_WEB_IDENTITY_TOKEN_FILE says where a secret is.
"""

import re
from urllib.parse import unquote

NAME = re.compile(
    r"password|passphrase|passwd|secret|token|jaas|credential|private|key\.pem|user\.info|authorization|cookie"
    r"|key$",
    re.IGNORECASE,
)
"""Options of Kafka's and of the registry's clients, variables of AWS and of OpenLineage; ``key`` at the end are theirs of API keys,
``ssl.keystore.key`` and AWS_SECRET_ACCESS_KEY, and not AWS_ACCESS_KEY_ID, which is no secret."""
ELSEWHERE = re.compile(r"[._](?:file|location|path)$", re.IGNORECASE)
"""The end of a name whose value says where the secret is."""

USER = re.compile(r"://[^/\s@]*:[^/\s@]+@")
"""The user of an address with a password; also of one that cannot be parsed."""
INSIDE = re.compile(
    r"(?:password|passphrase|passwd|secret|token|api[._-]?key|access[._-]?key)[\w.-]*(?:\s*=|[\"']\s*:)\s*[\"']?[^\s&;\"']",
    re.IGNORECASE,
)
"""A parameter of an address, an item of JSON or of a list of options."""
FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|^(?:basic|bearer)\s+\S{4}", re.IGNORECASE | re.MULTILINE
)
"""A key in PEM, a header that authorizes."""


def is_secret_name(name: str) -> bool:
    """Return whether an option or a variable of this name has a secret.

    >>> [name for name in ("sasl.password", "ssl.keystore.key", "ssl.keystore.location") if is_secret_name(name)]
    ['sasl.password', 'ssl.keystore.key']
    """
    return bool(NAME.search(name)) and not ELSEWHERE.search(name)


def secret_in(value: object) -> str:
    """Return what is secret in a value by its form, as the end of a sentence; empty if nothing is.

    >>> secret_in("postgresql://shop@db/runs?password=hunter2")
    'has a secret among its parameters'
    >>> secret_in("postgresql://shop@db/runs?sslmode=require")
    ''
    """
    if not isinstance(value, str):
        return ""
    text = unquote(value)
    if USER.search(value) or USER.search(text):
        return "has a password in its address"
    if INSIDE.search(text):
        return "has a secret among its parameters"
    return "has a secret" if FORMS.search(text) else ""
