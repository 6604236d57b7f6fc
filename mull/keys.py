"""Keys and other secrets of the environment, and payloads that can't be read without them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from temporalio.api.common.v1 import Payload

from mull.request import short_name
from mull.text import terminal_safe

ENCRYPTION_KEYS, CODEC, CLEAR = "MULL_ENCRYPTION_KEYS", "MULL_CODEC", "MULL_CLEAR"
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
SHORTEST_SECRET = 8
# As in Temporal's samples, so that the Web UI and others recognise a payload and name its key.
ENCRYPTED = b"binary/encrypted"
KEY_ID = "encryption-key-id"
# The namespace, run and kind that an encrypted payload is for: readable, and authenticated.
BOUND_TO = "bound-to"
# Of a payload that `mull.workflow` made: it is encrypted by Mull's keys, beside another codec too.
MADE_BY = "mull"
# The message of a failure whose own one is encrypted.
ENCODED_FAILURE = "Encoded failure"
# A codec's answer instead of a payload that it refuses; the data say why, or it was clear.
REFUSED = b"binary/refused"
IN_CLEAR = (
    "not encrypted, and this worker only accepts encrypted payloads:"
    f" set {ENCRYPTION_KEYS} as it is set for the worker, or {CLEAR}=read for the worker"
)


class UnreadableError(Exception):
    """A payload can't be decrypted here, or is refused: the message names its key, or says why.

    It does not fail the run: a workflow task waits for a worker that can read it.
    """

    def __init__(self, payload: Payload) -> None:
        named = payload.metadata.get(KEY_ID, b"unknown").decode("utf-8", "replace")
        said = (
            f"encrypted with the key {short_name(named)!r}, which is not among the keys"
            f" here, or differs: set {ENCRYPTION_KEYS} as it is set where this was written"
        )
        if payload.metadata.get("encoding") == REFUSED:
            said = terminal_safe(payload.data.decode("utf-8", "replace") or IN_CLEAR, 600)
        super().__init__(f"this is {said}")


def secrets() -> Iterator[str]:
    """Yield the environment's secrets, by their names, which messages and results must not show."""
    with suppress(OSError):
        for entry in key_entries(os.environ.get(ENCRYPTION_KEYS, "")):
            if key := entry.partition(":")[2]:
                yield key
    for name, value in os.environ.items():
        if name.endswith(SECRET_NAMES) and len(value) >= SHORTEST_SECRET:
            yield value


def redacted(text: str) -> str:
    """Remove this process's secrets from a text for history or a model."""
    for secret in secrets():
        text = text.replace(secret, "[secret]")
    return text


def key_entries(given: str) -> list[str]:
    """List the keys, ID:BASE64, of a value of MULL_ENCRYPTION_KEYS, or of the file after its @.

    They stand on lines of their own, or with commas between them. Raises OSError.
    """
    if given.startswith("@"):
        given = Path(given[1:]).read_text(encoding="ascii", errors="replace")
    return [entry.strip() for entry in given.replace(",", "\n").splitlines() if entry.strip()]
