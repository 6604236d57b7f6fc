"""The codec of payloads, its keys, and one's own codec, without a server."""

import asyncio
import base64
import re
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.converter import (
    ActivitySerializationContext,
    NexusSerializationContext,
    PayloadCodec,
    WorkflowSerializationContext,
)
from temporalio.exceptions import ApplicationError

from activities.doctor import encryption_check
from commands import follow
from mull.connection import (
    COMPRESSED_OVER,
    DATA_CONVERTER,
    _EncodedFailureConverter,
    chosen_codec,
    expanded,
)
from mull.encryption import EncryptionCodec, codec_from
from mull.errors import ConfigurationError, NoWorkerError
from mull.handle import Run
from mull.keys import BOUND_TO, ENCRYPTED, KEY_ID, REFUSED, UnreadableError, secrets
from mull.loops import SESSION
from mull.sampling.request import SelfConsistencyRequest

SECRET = base64.b64encode(b"s" * 32).decode()
SHORT = base64.b64encode(b"s" * 31).decode()
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"a question"')
RUN = WorkflowSerializationContext("default", "run")


def keys(*ids: str) -> str:
    return ",".join(f"{id_}:{base64.b64encode(id_.ljust(32).encode()).decode()}" for id_ in ids)


def codec_of(*ids: str) -> EncryptionCodec:
    made = codec_from({"MULL_ENCRYPTION_KEYS": keys(*ids)})
    assert isinstance(made, EncryptionCodec)
    return made


def of_activity(queue: str) -> ActivitySerializationContext:
    return ActivitySerializationContext("default", "1", "call", queue, "run", "Run", False)


def encrypted(codec: PayloadCodec, *payloads: Payload) -> list[Payload]:
    return asyncio.run(codec.encode(payloads))


def decrypted(codec: PayloadCodec, *payloads: Payload) -> list[Payload]:
    return asyncio.run(codec.decode(payloads))


@pytest.mark.parametrize(
    ("ids", "usual", "code"),
    [
        (["main-2", "main-1"], "main-2", "main-2"),
        (["main-1", "code-2", "code-1"], "main-1", "code-2"),
        (["code-1", "main-1"], "main-1", "code-1"),
    ],
)
def test_which_key_encrypts(ids: list[str], usual: str, code: str) -> None:
    """The first one; what activities on mull-code take and return has a key of its own."""
    codec = codec_of(*ids)
    by_default = encrypted(codec, PLAIN)
    of_run = encrypted(codec.with_context(RUN), PLAIN)
    of_code = encrypted(codec.with_context(of_activity("mull-code")), PLAIN)
    of_model = encrypted(codec.with_context(of_activity("mull-llm")), PLAIN)

    found = [one.metadata[KEY_ID].decode() for [one] in (by_default, of_run, of_code, of_model)]
    assert found == [usual, usual, code, usual]
    assert decrypted(codec, *by_default, *of_code, PLAIN) == [PLAIN] * 3


def test_a_payload_is_encrypted_whole_and_never_twice_alike() -> None:
    """Its encoding is inside too, and the nonce is new each time."""
    codec = codec_of("main-1")
    [one], [another] = encrypted(codec, PLAIN), encrypted(codec, PLAIN)

    assert one.metadata == {"encoding": ENCRYPTED, KEY_ID: b"main-1"}
    assert b"question" not in one.SerializeToString()
    assert one.data[:12] != another.data[:12]
    assert one.data[12:] != another.data[12:]


def test_what_was_changed_is_not_decrypted() -> None:
    """Neither with another key's id, though that has the same key, nor with a bit turned."""
    same = f"a:{SECRET},b:{SECRET}"
    codec = codec_from({"MULL_ENCRYPTION_KEYS": same})
    [good] = encrypted(codec, PLAIN)
    renamed, turned, cut = Payload(), Payload(), Payload()
    for each in (renamed, turned, cut):
        each.CopyFrom(good)
    renamed.metadata[KEY_ID] = b"b"
    turned.data = good.data[:-1] + bytes([good.data[-1] ^ 1])
    cut.data = good.data[:5]

    changed = [renamed, turned, cut]
    assert decrypted(codec, good, *changed) == [PLAIN, *changed]


def test_what_an_earlier_version_encrypted_is_read() -> None:
    """It was bound to nothing: written out here as that version wrote it."""
    key, nonce = AESGCM(b"main-1".ljust(32)), b"n" * 12
    beside = b"binary/encrypted AES-256-GCM main-1"
    data = nonce + key.encrypt(nonce, PLAIN.SerializeToString(), beside)
    old = Payload(metadata={"encoding": ENCRYPTED, KEY_ID: b"main-1"}, data=data)
    renewed = Payload(metadata={**old.metadata, BOUND_TO: b'{"id": "run"}'}, data=data)
    codec = codec_of("main-1")

    for reader in (codec, codec.with_context(RUN), codec.with_context(of_activity("mull-llm"))):
        assert decrypted(reader, old) == [PLAIN]
        assert decrypted(reader, renewed) == [renewed]


PLACES = [
    RUN,
    WorkflowSerializationContext("default", "other"),
    WorkflowSerializationContext("elsewhere", "run"),
    of_activity("mull-llm"),
    ActivitySerializationContext("default", "1", "call_tool", "mull-llm", "run", "Run", False),
    ActivitySerializationContext("default", "run", "call", "mull-llm", None, None, False),
    ActivitySerializationContext("default", "other", "call", "mull-llm", None, None, False),
]


@pytest.mark.parametrize("writer", range(len(PLACES)))
@pytest.mark.parametrize("reader", range(len(PLACES)))
def test_what_was_encrypted_for_one_place_is_read_at_no_other(writer: int, reader: int) -> None:
    """Namespace, run, and kind: a run's own, that of a call of a type, or of one without a run."""
    codec = codec_of("main-1")
    [sealed] = encrypted(codec.with_context(PLACES[writer]), PLAIN)
    [found] = decrypted(codec.with_context(PLACES[reader]), sealed)

    assert (found == PLAIN) == (writer == reader)
    assert (found.metadata["encoding"] == REFUSED) == (writer != reader)
    assert decrypted(codec, sealed) == [PLAIN]


def test_a_standalone_call_s_result_is_read_by_who_waits_for_it() -> None:
    """The SDK tells its type to none but who started it, and who runs it."""
    codec, known = codec_of("main-1"), (None, None, None, None, False)
    [sealed] = encrypted(codec.with_context(PLACES[5]), PLAIN)
    waits = codec.with_context(ActivitySerializationContext("default", "run", *known))

    assert decrypted(waits, sealed) == [PLAIN]


CALLED = NexusSerializationContext("mull", "mull", "ask")


@pytest.mark.parametrize(
    ("writer", "reads"),
    [
        (CALLED, True),
        (NexusSerializationContext("other", "mull", "ask"), False),
        (NexusSerializationContext("mull", "mull", "agent"), False),
        *((place, False) for place in PLACES),
    ],
)
def test_an_operation_takes_what_was_encrypted_for_it_alone(writer: Any, reads: bool) -> None:
    """As a start does. A run's result is read by whoever called the operation that started it."""
    codec = codec_of("main-1")
    handler, caller = codec.with_context(CALLED), codec.with_context(CALLED)
    handler.strict = True
    [sealed] = encrypted(codec.with_context(writer), PLAIN)

    [taken] = decrypted(handler, sealed)
    assert (taken == PLAIN, taken.metadata["encoding"] == REFUSED) == (reads, not reads)
    assert decrypted(caller, sealed) == [PLAIN]


def test_a_key_for_code_calls_no_operation() -> None:
    """A program that broke out of its sandbox may have it."""
    codec = codec_of("main-1", "code-1")
    [sealed] = encrypted(codec_of("code-1", "main-1").with_context(of_activity("mull-code")), PLAIN)
    handler = codec.with_context(CALLED)
    handler.strict = True

    [taken] = decrypted(handler, Payload(metadata=sealed.metadata, data=sealed.data))
    assert taken.metadata["encoding"] == REFUSED
    assert b"encrypted with a key for code" in taken.data


@pytest.mark.parametrize("changed", [b'{"id": "other"}', b"", None])
def test_what_a_payload_is_for_can_t_be_changed(changed: bytes | None) -> None:
    """It is authenticated, also that it is there at all."""
    codec = codec_of("main-1").with_context(RUN)
    [sealed] = encrypted(codec, PLAIN)
    if changed is None:
        del sealed.metadata[BOUND_TO]
    else:
        sealed.metadata[BOUND_TO] = changed

    assert decrypted(codec, sealed) == [sealed]


@pytest.mark.parametrize("given", ["", "yes", "READ"])
def test_only_read_is_a_value_of_mull_clear(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """Nobody takes what is in the clear by a mistyped word."""
    monkeypatch.setenv("MULL_CLEAR", given)
    with pytest.raises(ConfigurationError, match='MULL_CLEAR: expected "read", or unset it'):
        chosen_codec()


@pytest.mark.parametrize("kind", [SelfConsistencyRequest, str], ids=["a request", "a result"])
def test_who_lacks_a_key_is_told_its_id(kind: type) -> None:
    """With other keys and with none; a request too fails no run because of it."""
    [payload] = encrypted(codec_of("main-2"), PLAIN)

    for payloads in ([payload], decrypted(codec_of("main-1"), payload)):
        with pytest.raises(UnreadableError, match="the key 'main-2', which is not among the keys"):
            DATA_CONVERTER.payload_converter.from_payloads(payloads, [kind])


def test_compression_comes_first() -> None:
    """What is encrypted can't be compressed any more."""
    value = "a question " * COMPRESSED_OVER
    converter = DATA_CONVERTER.with_context(of_activity("mull-llm")).payload_converter

    [payload] = encrypted(codec_of("main-1"), *converter.to_payloads([value]))
    [opened] = decrypted(codec_of("main-1"), payload)

    assert payload.ByteSize() < COMPRESSED_OVER
    assert converter.from_payloads([expanded(opened)], [str]) == [value]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "has no key: give ID:BASE64"),
        (" , ", "has no key"),
        (SECRET, "key 1 of 1 is malformed"),
        (f"a:{SHORT}", "key 1 of 1 is malformed"),
        (f"a:{SECRET[:-1]}", "key 1 of 1 is malformed"),
        ("a:" + SECRET.replace("c", "*"), "key 1 of 1 is malformed"),
        (f"a:{SECRET},:{SECRET}", "key 2 of 2 is malformed"),
        (f"a b:{SECRET}", "key 1 of 1 is malformed"),
        (f"{SECRET}:a", "key 1 of 1 is malformed"),
        (f"a:{SECRET},a:{SECRET}", "two keys have the id a"),
        ("@/nowhere", "/nowhere can't be read: No such file"),
        ("@/", "can't be read: Is a directory"),
        ("@", "can't be read: Is a directory"),
    ],
)
def test_malformed_keys_are_one_line_without_a_key(given: str, said: str) -> None:
    """It says which key it is by its place, and what is expected."""
    with pytest.raises(ValueError, match="MULL_ENCRYPTION_KEYS") as caught:
        codec_from({"MULL_ENCRYPTION_KEYS": given})

    assert said in str(caught.value)
    assert not any(part in str(caught.value) for part in (SECRET[:8], SHORT[:8], "\n"))


def test_keys_from_a_file(tmp_path: Path) -> None:
    """One a line; a file that everybody may read is refused."""
    file = tmp_path / "keys"
    file.write_text(keys("main-2", "main-1").replace(",", "\r\n") + "\n\n")
    file.chmod(0o640)
    codec = codec_from({"MULL_ENCRYPTION_KEYS": f"@{file}"})
    assert decrypted(codec, *encrypted(codec_of("main-1"), PLAIN)) == [PLAIN]

    file.chmod(0o644)
    with pytest.raises(ValueError, match="is open to all users of this machine: chmod o-rw it"):
        codec_from({"MULL_ENCRYPTION_KEYS": f"@{file}"})
    file.chmod(0o600)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="key 1 of 1 is malformed"):
        codec_from({"MULL_ENCRYPTION_KEYS": f"@{file}"})


class OwnCodec(PayloadCodec):
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)


def failing() -> PayloadCodec:
    raise RuntimeError(SECRET)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    module, made = ModuleType("own_codec"), OwnCodec()
    vars(module).update(made=made, kind=OwnCodec, make=lambda: made)
    vars(module).update(number=1, other=dict, failing=failing)
    monkeypatch.setitem(sys.modules, "own_codec", module)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("name", ["made", "kind", "make"])
def test_one_s_own_codec(name: str) -> None:
    """An instance, a class or a function; nobody could tell if it counts or the keys do."""
    chosen = {"MULL_CODEC": f"own_codec:{name}"}

    assert isinstance(codec_from(chosen), OwnCodec)
    with pytest.raises(ValueError, match="MULL_ENCRYPTION_KEYS and MULL_CODEC are both set"):
        codec_from({**chosen, "MULL_ENCRYPTION_KEYS": f"a:{SECRET}"})


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "expected module:attribute, got ValueError"),
        ("own_codec", "expected module:attribute"),
        ("own_codec:", "expected module:attribute, got module 'own_codec' has no attribute ''"),
        ("nowhere:codec", "got No module named 'nowhere'"),
        ("own_codec:none", "got module 'own_codec' has no attribute 'none'"),
        ("own_codec:failing", "got RuntimeError"),
        ("own_codec:number", "neither is nor makes a temporalio.converter.PayloadCodec"),
        ("own_codec:other", "neither is nor makes a temporalio.converter.PayloadCodec"),
    ],
)
def test_what_is_no_codec_is_one_line(given: str, said: str) -> None:
    """It names the variable, and shows nothing that an error of the codec says."""
    with pytest.raises(ValueError, match="MULL_CODEC") as caught:
        codec_from({"MULL_CODEC": given})

    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("between", [",", "\n", " ,\r\n"])
@pytest.mark.parametrize("in_file", [False, True], ids=["here", "in a file"])
def test_the_keys_are_among_the_secrets_and_their_ids_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, between: str, in_file: bool
) -> None:
    """So that no tool's result and no message holds one, however they are given."""
    given = f"main-2026:{SECRET}{between}{keys('main-2025')}"
    file = tmp_path / "keys"
    file.write_text(given)
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", f"@{file}" if in_file else given)

    held = set(secrets())
    file.unlink()

    assert {SECRET, keys("main-2025").partition(":")[2]} <= held
    assert not [secret for secret in held if "main-202" in secret]
    assert in_file != (SECRET in set(secrets()))


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "off: the server stores all texts unencrypted"),
        ({"MULL_ENCRYPTION_KEYS": keys("b", "code-1", "a")},
         "on: encrypts with b, code's with code-1, also decrypts a"),
        ({"MULL_ENCRYPTION_KEYS": keys("a")}, "on: encrypts with a"),
        ({"MULL_ENCRYPTION_KEYS": keys("a"), "MULL_CLEAR": "read"},
         "on: encrypts with a; MULL_CLEAR: it also accepts unencrypted payloads"),
        ({"MULL_ENCRYPTION_KEYS": keys("code-2", "code-1")},
         "on: code's with code-2, also decrypts code-1"),
        ({"MULL_CODEC": "own_codec:made"}, "on: by the codec of MULL_CODEC"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("own")
def test_doctor_says_by_which_keys(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their ids, and by which process."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    found = [encryption_check(where) for where in ("mull-llm", "command line")]

    # What a worker takes is its own variable's to say.
    told = [("mull-llm", said), ("command line", said.partition("; ")[0])]
    assert found == [("encryption", where, "ok", words, (), ()) for where, words in told]


class Described:
    """A run, as the server describes it to who has this codec."""

    id, status = "run", WorkflowExecutionStatus.RUNNING

    def __init__(self, codec: PayloadCodec, *, tries: int = 1) -> None:
        self.data_converter = replace(
            DATA_CONVERTER, payload_codec=codec, failure_converter_class=_EncodedFailureConverter
        )
        call = PendingActivityInfo(attempt=3)
        call.last_failure.SetInParent()
        error = ApplicationError("no such model", type="NotFoundError")
        asyncio.run(self.data_converter.encode_failure(error, call.last_failure))
        self.raw_description = DescribeWorkflowExecutionResponse(pending_activities=[call])
        self.raw_description.pending_workflow_task.attempt = tries

    async def describe(self) -> Any:
        return self

    async def query(self, *_: Any, **__: Any) -> Any:
        raise WorkflowQueryFailedError("nobody answers")


def test_the_error_of_a_slow_call_is_read() -> None:
    """The server shows its type alone."""
    handle: Any = Described(codec_of("main-1"))
    stored = str(handle.raw_description)
    words = asyncio.run(follow.slow(Run[Any](handle, SESSION, handle)))

    assert "no such model" not in stored
    assert words is not None
    assert words.endswith("last error NotFoundError: no such model")


def test_a_run_that_no_worker_can_read_says_so() -> None:
    """Its workflow task fails again and again, and nothing else moves."""
    handle: Any = Described(codec_of("main-1"), tries=3)
    said = "the worker can't go on with this run (attempt 3): its log says why"

    assert asyncio.run(follow.slow(Run[Any](handle, SESSION, handle))) == said
    with pytest.raises(NoWorkerError, match=re.escape(said)):
        asyncio.run(Run[Any](handle, SESSION, handle).look())


class Unreadable:
    """A run that goes on, whose record only others can read."""

    id = "run"

    async def result(self) -> None:
        await asyncio.Event().wait()

    async def query(self, *_: Any, **__: Any) -> None:
        raise UnreadableError(PLAIN)

    async def fetch_history_events(self, **_: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)


async def test_who_follows_a_run_without_its_key_hears_of_it() -> None:
    """As who waits for its result does."""
    handle: Any = Unreadable()
    news = aiter(Run[Any](handle, SESSION, handle))

    with pytest.raises(ConfigurationError, match="which is not among the keys here"):
        await anext(news)


def test_an_encrypted_failure_stays_small_and_a_permanent_one_has_no_stack_trace() -> None:
    """Of one over 4 KiB the server keeps nothing that is encrypted."""
    known = Described(codec_of("main-1")).data_converter
    traces = []
    for permanent in (False, True):
        failure = Failure()
        try:
            deeper(200, permanent=permanent)
        except ApplicationError as error:
            asyncio.run(known.encode_failure(error, failure))
        assert (failure.message, failure.stack_trace) == ("Encoded failure", "")
        assert failure.ByteSize() < 2_000
        read = asyncio.run(known.decode_failure(failure))
        assert isinstance(read, ApplicationError)
        assert read.failure is not None
        traces.append(read.failure.stack_trace)

    assert [bool(trace) for trace in traces] == [True, False]


def deeper(calls: int, *, permanent: bool) -> None:
    """Raise from deep within."""
    if calls:
        deepest(calls - 1, permanent=permanent)
    raise ApplicationError("no", non_retryable=permanent)


def deepest(calls: int, *, permanent: bool) -> None:
    """Call back, since a frame that repeats is written once."""
    deeper(calls, permanent=permanent)


def test_without_cryptography_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent unencrypted because a package lacks."""
    monkeypatch.delitem(sys.modules, "mull.encryption")
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", keys("a"))

    with pytest.raises(ConfigurationError, match=r"cryptography: pip install '\.\[encryption\]'"):
        chosen_codec()
