"""A plugin for your own workers and clients, whose workflows share encrypted runs with Mull's."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
)
from temporalio.plugin import SimplePlugin

from mull.connection import chosen_codec
from mull.errors import ConfigurationError
from mull.keys import CODEC, ENCRYPTION_KEYS, MADE_BY


class EncryptionPlugin(SimplePlugin):
    """Encrypts by Mull's keys what `mull.workflow` sends, and decrypts what comes back.

        client = await Client.connect(address, plugins=[EncryptionPlugin()])

    The keys are those of MULL_ENCRYPTION_KEYS, or the codec is that of MULL_CODEC, as for Mull's
    own workers. A codec of the client's own still encodes all else; if it has none, Mull's encrypts
    that too, and the messages of failures. A worker made with the client has the plugin as well.

    Raises ConfigurationError if neither variable is set, or one of them is not valid.
    """

    def __init__(self) -> None:
        codec = chosen_codec()
        if codec is None:
            said = f"EncryptionPlugin: set {ENCRYPTION_KEYS} or {CODEC} as for Mull's workers"
            raise ConfigurationError(said)
        self._codec = codec
        super().__init__("mull.EncryptionPlugin", data_converter=self._encrypting)

    def _encrypting(self, given: DataConverter | None) -> DataConverter:
        """Return the converter with Mull's codec, beside the one that it has."""
        converter = given or DataConverter.default
        own, failures = converter.payload_codec, converter.failure_converter_class
        if isinstance(own, _SharedCodec):
            return converter
        if own is not None:
            return replace(converter, payload_codec=_SharedCodec(self._codec, own))
        if failures is DefaultFailureConverter:
            failures = DefaultFailureConverterWithEncodedAttributes
        return replace(converter, payload_codec=self._codec, failure_converter_class=failures)


class _SharedCodec(PayloadCodec, WithSerializationContext):
    """Mull's codec for what Mull's runs send and get, and the worker's own for all else."""

    def __init__(self, runs: PayloadCodec, own: PayloadCodec) -> None:
        self._runs, self._own = runs, own

    def with_context(self, context: SerializationContext) -> Self:
        """Return it with both codecs in this context."""
        return type(self)(*(_in_context(one, context) for one in (self._runs, self._own)))

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encode each payload by the codec of whoever reads it."""
        encoded = []
        for payload in payloads:
            codec = self._runs if MADE_BY in payload.metadata else self._own
            encoded += await codec.encode([payload])
        return encoded

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decode each payload by Mull's codec where that reads it, else by the own one."""
        decoded = []
        for payload in payloads:
            [read] = await self._runs.decode([payload])
            decoded += [read] if read != payload else await self._own.decode([payload])
        return decoded


def _in_context(codec: PayloadCodec, context: SerializationContext) -> PayloadCodec:
    return codec.with_context(context) if isinstance(codec, WithSerializationContext) else codec
