import math
from typing import Any

import pytest

from activities.documents.retrieval import Embedded
from activities.language_model.port import ModelError, PermanentModelError, TransientModelError
from reflection.run import Spending
from tests.activities.scripted_calls import KEY, NAME, Build, redirect
from tests.scripted_endpoint import Reply, Scripted, ScriptedEndpoint, embedded, embedding, failing

TEXTS = ["one", "three", "a"]


async def embed(build: Build, *replies: Reply, texts: list[str] = TEXTS) -> Embedded:
    with ScriptedEndpoint(replies) as server:
        model: Any = build(None, redirect(server))
        found: Embedded = await model.embed(texts, NAME, 5.0)
        return found


async def test_each_text_has_its_vector(build: Build) -> None:
    """Texts are sent at once to the server's embeddings, and their vectors come in order."""
    with ScriptedEndpoint([embedding(lambda text: [len(text), 0.5])]) as server:
        model: Any = build(None, redirect(server))
        found = await model.embed(TEXTS, NAME, 5.0)

    assert (found.vectors, found.provider) == ([[3, 0.5], [5, 0.5], [1, 0.5]], "house")
    assert found.spending == Spending(calls=1, input_tokens=5, output_tokens=0, cost_usd=0.0)
    assert (server.paths, server.authorizations) == (["/v1/embeddings"], [f"Bearer {KEY}"])
    assert server.requests[0]["input"] == TEXTS


async def test_many_texts_make_several_calls(build: Build) -> None:
    """A call has at most 64 texts, and what all of them cost is added up."""
    texts = [str(number) for number in range(130)]
    reply = embedding(lambda text: [float(text)])

    with ScriptedEndpoint([reply] * 3) as server:
        model: Any = build(None, redirect(server))
        found = await model.embed(texts, NAME, 5.0)

    assert [len(request["input"]) for request in server.requests] == [64, 64, 2]
    assert found.vectors == [[number] for number in range(130)]
    assert (found.spending.calls, found.spending.input_tokens) == (3, 15)


FAULTS = [
    ("429", failing(429, headers={"Retry-After": "3"}), TransientModelError, "RateLimitError"),
    ("500", failing(500), TransientModelError, "InternalServerError"),
    ("401", failing(401), PermanentModelError, "AuthenticationError"),
    ("404", failing(404, "model_not_found"), PermanentModelError, "NotFoundError"),
    ("no JSON", Scripted(body=b"nope"), TransientModelError, "InternalServerError"),
    ("reset", Scripted(reset=True), TransientModelError, "InternalServerError"),
    ("no data", Scripted(body=b'{"object": "list"}'), TransientModelError, "EmptyReply"),
    ("too few", embedded([[1.0]]), TransientModelError, "EmptyReply"),
    ("unequal", embedded([[1.0], [1.0, 2.0], [1.0]]), TransientModelError, "EmptyReply"),
    ("empty", embedded([[], [], []]), TransientModelError, "EmptyReply"),
    ("no number", embedded([[1.0], [math.nan], [1.0]]), TransientModelError, "EmptyReply"),
]


@pytest.mark.parametrize(
    ("fault", "expected", "kind"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
async def test_a_fault_is_told_once(
    build: Build, fault: Scripted, expected: type[ModelError], kind: str
) -> None:
    """A call that fails is made once, and its error is one of the port's."""
    with ScriptedEndpoint([fault]) as server:
        model: Any = build(None, redirect(server))
        with pytest.raises(expected) as raised:
            await model.embed(TEXTS, NAME, 5.0)

    assert (raised.value.kind, len(server.requests)) == (kind, 1)


async def test_a_slow_server_is_not_waited_for(build: Build) -> None:
    """A call ends after its seconds."""
    with ScriptedEndpoint([embedded([[1.0]], delay=3)]) as server:
        model: Any = build(None, redirect(server))
        with pytest.raises(TransientModelError, match=r"did not reply within 0\.2 seconds"):
            await model.embed(["a"], NAME, 0.2)


async def test_no_text_makes_no_call(build: Build) -> None:
    """Nothing to embed costs nothing."""
    found = await embed(build, texts=[])

    nothing = Spending(input_tokens=0, output_tokens=0, cached_tokens=0, cost_usd=0.0)
    assert (found.vectors, found.spending) == ([], nothing)
