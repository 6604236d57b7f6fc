"""Starts of every kind that are no requests: each fails its run at once, and says little."""

from typing import Any

import pytest
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.converter import DefaultPayloadConverter

from tests.conftest import begin, failure, served
from tests.scripted import ScriptedModel

KINDS = {
    "SelfConsistencyWorkflow": "question",
    "ReflectOnResultWorkflow": "query",
    "MultiPathWorkflow": "prompt",
    "BatchWorkflow": "items",
}
LONG = "secret" * 25_000
STARTS: dict[str, Any] = {
    "a list": ["secret"] * 100_000,
    "a number": 5,
    "a thousand unknown fields": {f"secret{place}": 1 for place in range(999)},
    "100,000 unknown fields": {f"secret{place}": 1 for place in range(100_000)},
    "one long name": {LONG: 1},
    "deep": b'{"FIELD": ' + b"[" * 900 + b"]" * 900 + b"}",
    "a wrong list in each field": ["model", "seed", "judges", "sources", "variants"],
    "long texts": ["model", "question", "query", "prompt", "entry", "docs"],
    "a twin": b'{"FIELD": "a", "FIELD": "b"}',
    "no number": b'{"FIELD": "a", "budget_tokens": NaN}',
    "a million digits": b'{"FIELD": "a", "budget_tokens": ' + b"9" * 1_000_000 + b"}",
    "brackets": b"[" * 1_500_000,
    "a lone surrogate": b'{"FIELD": "\\ud800"}',
    "no UTF-8": b'{"FIELD": "\xff"}',
}


@pytest.mark.parametrize("start", STARTS)
async def test_a_malformed_start_fails_at_once(client: Client, start: str) -> None:
    """In at most 4 kB, without a word of what was given."""
    async with served(client, ScriptedModel([])):
        for kind, field in KINDS.items():
            given = STARTS[start]
            if start in {"a wrong list in each field", "long texts"}:
                value = LONG if start == "long texts" else [["secret"]] * 10_000
                given = {field: "a", **dict.fromkeys(given, value)}
            if isinstance(given, bytes):
                [payload] = DefaultPayloadConverter().to_payloads([{}])
                payload.data = given.replace(b"FIELD", field.encode())
                given = RawValue(payload)
            error = await failure(await begin(client, given, kind))

            assert error.type == "InvalidRequest", (kind, error)
            assert len(error.message.encode()) <= 4_096
            assert "secret" * 20 not in error.message
