"""Encrypted payloads: keys by their ids, and the codec that the environment asks for."""

import base64
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    NexusSerializationContext,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
)

from mull import queues
from mull.keys import BOUND_TO, CODEC, ENCRYPTED, ENCRYPTION_KEYS, KEY_ID, REFUSED, key_entries

KEY_BYTES = 32
NONCE_BYTES = 12
# Keys whose id begins like this are for the workers of untrusted code.
CODE_PREFIX = "code"
VALID_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# A program that broke out of its sandbox has that key.
BY_CODE = b"encrypted with a key for code, which may not start a run or send it anything"
FORM = f"ID:BASE64, with {KEY_BYTES} random bytes in base64"
# The data authenticated with a payload: its encryption, the key's id and then, after a zero byte,
# what it is bound to. Earlier versions did not bind payloads, and the codec server does not.
BOUND = ENCRYPTED + b" AES-256-GCM "
OPERATION = "nexus operation"
# Mounted secrets may be readable by a group.
BY_ANYBODY = stat.S_IROTH | stat.S_IWOTH


class EncryptionCodec(PayloadCodec, WithSerializationContext):
    """AES-256-GCM with keys by their ids, and a random nonce for each payload.

    The first key encrypts and all of them decrypt. If some are for code, the first of these
    encrypts inputs and results of activities on mull-code, and the first other one the rest.
    Payloads that no key here decrypts pass unchanged, and so do unencrypted ones, unless the codec
    is `strict`. The converter raises UnreadableError for a refused or still encrypted payload.

    Each payload is bound to its namespace, run, and kind, and is refused anywhere else. Without a
    context it is neither bound nor compared. Nor does the caller of a Nexus operation, who is not
    strict, compare its result, which is bound to the run that made it.
    """

    def __init__(self, keys: Mapping[str, AESGCM]) -> None:
        self._keys, self.strict = keys, False
        self._place: dict[str, str] = {}
        self._usual = next((id_ for id_ in keys if not id_.startswith(CODE_PREFIX)), None)
        self._for_code = next((id_ for id_ in keys if id_.startswith(CODE_PREFIX)), self._usual)
        self._id = self._usual
        self.only_code = self._usual is None

    @property
    def described(self) -> str:
        """Name the keys by their ids, with their purposes."""
        others = ", ".join(id_ for id_ in self._keys if id_ not in {self._usual, self._for_code})
        code = None if self._for_code == self._usual else self._for_code
        parts = {"encrypts with": self._usual, "code's with": code, "also decrypts": others}
        return ", ".join(f"{what} {id_}" for what, id_ in parts.items() if id_)

    def with_context(self, context: SerializationContext) -> Self:
        """Return the codec for an activity's inputs and results, or for a run's payloads."""
        other, queue = copy(self), getattr(context, "activity_task_queue", None)
        other._id = self._for_code if queue == queues.CODE else self._usual
        other._place = _place(context)
        return other

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each payload whole, with its metadata."""
        if self._id is None:
            raise ValueError(f"{ENCRYPTION_KEYS} has only keys for code")
        key, id_, encrypted = self._keys[self._id], self._id.encode(), []
        metadata = {"encoding": ENCRYPTED, KEY_ID: id_}
        if self._place:
            metadata[BOUND_TO] = json.dumps(self._place).encode()
        for payload in payloads:
            nonce = os.urandom(NONCE_BYTES)
            data = nonce + key.encrypt(nonce, payload.SerializeToString(), _beside(metadata))
            encrypted.append(Payload(metadata=metadata, data=data))
        return encrypted

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt the payloads whose keys are here."""
        return [self._decrypted(payload) for payload in payloads]

    def _decrypted(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCRYPTED:
            return Payload(metadata={"encoding": REFUSED}) if self.strict else payload
        id_ = payload.metadata.get(KEY_ID, b"").decode("ascii", "replace")
        misused = id_.startswith(CODE_PREFIX) and self._id != self._for_code
        if self.strict and self._place and misused:
            return Payload(metadata={"encoding": REFUSED}, data=BY_CODE)
        key = self._keys.get(id_)
        nonce, data = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
        try:
            if key is None:
                return payload
            plain = Payload.FromString(key.decrypt(nonce, data, _beside(payload.metadata)))
        except (InvalidTag, ValueError):
            return payload
        if bound := payload.metadata.get(BOUND_TO):
            place: dict[str, str] = json.loads(bound)
            calls = self._place.get("kind") == OPERATION and not self.strict
            if not calls and any(place.get(name, own) != own for name, own in self._place.items()):
                said = " ".join(
                    ["encrypted for", *place.values(), "not for", *self._place.values()]
                )
                return Payload(metadata={"encoding": REFUSED}, data=said.encode())
        return plain


def _beside(metadata: Mapping[str, bytes]) -> bytes:
    """Return the data to authenticate with a payload of this metadata."""
    bound = metadata.get(BOUND_TO, b"")
    return BOUND + metadata.get(KEY_ID, b"") + (b"\0" + bound if bound else b"")


def _place(context: SerializationContext) -> dict[str, str]:
    """Name the place that a payload is bound to, as far as its writer and its reader both know it.

    The SDK does not tell a workflow the ids of activities, nor a standalone one's caller its type.
    """
    if isinstance(context, NexusSerializationContext):
        called = f"{context.service}.{context.operation}"
        return {"kind": OPERATION, "type": called, "id": context.endpoint}
    told, kind = vars(context), "activity" if hasattr(context, "activity_id") else "workflow"
    place = {"kind": kind, "id": told.get("workflow_id"), "type": told.get("activity_type")}
    if kind == "activity" and not place["id"]:
        place |= {"kind": "standalone activity", "id": told["activity_id"]}
    place["namespace"] = told.get("namespace")
    return {name: known for name, known in place.items() if known} if place["namespace"] else {}


def codec_from(environment: Mapping[str, str]) -> PayloadCodec:
    """Make the codec that MULL_ENCRYPTION_KEYS or MULL_CODEC asks for.

    Raises ValueError, whose message never holds a part of a key.
    """
    given, named = environment.get(ENCRYPTION_KEYS), environment.get(CODEC)
    if given is not None and named is not None:
        raise ValueError(f"{ENCRYPTION_KEYS} and {CODEC} are both set: unset one of them")
    return _own_codec(named or "") if given is None else EncryptionCodec(_keys(given))


def _keys(given: str) -> dict[str, AESGCM]:
    in_file = given.startswith("@")
    where = f"{ENCRYPTION_KEYS}: {Path(given[1:])}" if in_file else ENCRYPTION_KEYS
    try:
        entries = key_entries(given)
        exposed = in_file and Path(given[1:]).stat().st_mode & BY_ANYBODY
    except OSError as error:
        raise ValueError(f"{where} can't be read: {error.strerror}") from None
    if exposed:
        raise ValueError(f"{where} is open to all users of this machine: chmod o-rw it")
    keys: dict[str, AESGCM] = {}
    if not entries:
        raise ValueError(f"{where} has no key: give {FORM}, or unset it to turn encryption off")
    for number, entry in enumerate(entries, 1):
        # Do not show any part of a malformed entry: it may be a key.
        id_, _, encoded = entry.partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except ValueError:
            key = b""
        if not VALID_ID.fullmatch(id_) or len(key) != KEY_BYTES:
            raise ValueError(f"{where}: key {number} of {len(entries)} is malformed: give {FORM}")
        if id_ in keys:
            raise ValueError(f"{where}: two keys have the id {id_}")
        keys[id_] = AESGCM(key)
    return keys


def _own_codec(named: str) -> PayloadCodec:
    """Load a user's codec: an instance, or a class or function that makes one."""
    module, _, attribute = named.partition(":")
    try:
        found = getattr(import_module(module), attribute)
        found = found() if callable(found) and not isinstance(found, PayloadCodec) else found
    except Exception as error:
        # Its message may contain a key.
        known = isinstance(error, ModuleNotFoundError | AttributeError)
        said = f"expected module:attribute, got {error if known else type(error).__name__}"
        raise ValueError(f"{CODEC}={named} can't be loaded: {said}") from None
    if isinstance(found, PayloadCodec):
        return found
    raise ValueError(f"{CODEC}={named} neither is nor makes a temporalio.converter.PayloadCodec")
