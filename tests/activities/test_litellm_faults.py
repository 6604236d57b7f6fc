import pytest

from activities.language_model.port import PermanentModelError, SampleError, TransientModelError
from reflection.run import Spending
from tests.activities.scripted_calls import Build, ask
from tests.scripted_endpoint import Scripted, failing

SPENT = Spending(calls=1, input_tokens=11, output_tokens=7, cost_usd=0.0)
TRANSIENT: list[tuple[str, Scripted, str, int | None, float | None]] = [
    ("408", failing(408), "Timeout", 408, None),
    ("409", failing(409), "ConflictError", 409, None),
    ("429", failing(429), "RateLimitError", 429, None),
    ("429 wait", failing(429, headers={"Retry-After": "3"}), "RateLimitError", 429, 3.0),
    ("429 long", failing(429, headers={"Retry-After": "900"}), "RateLimitError", 429, 60.0),
    ("400 of a rate limit", failing(400, message="rate limited"), "RateLimitError", 429, None),
    ("500", failing(500), "InternalServerError", 500, None),
    ("502", failing(502), "BadGatewayError", 502, None),
    (
        "503 wait",
        failing(503, headers={"Retry-After": "Fri, 31 Dec 2099 23:59:59 GMT"}),
        "ServiceUnavailableError",
        503,
        60.0,
    ),
    ("529", failing(529), "OverloadedError", 529, None),
    ("bad JSON", Scripted(body=b"{nope"), "InternalServerError", 500, None),
    ("HTML", Scripted(body=b"<html>hello"), "InternalServerError", 500, None),
    ("empty body", Scripted(body=b""), "InternalServerError", 500, None),
    ("cut body", Scripted(cut=True), "InternalServerError", 500, None),
    ("reset", Scripted(reset=True), "InternalServerError", 500, None),
    (
        "200 with an error",
        Scripted(body=b'{"object": "error", "message": "boom", "code": 500}'),
        "InternalServerError",
        500,
        None,
    ),
    ("no choices", Scripted(choices=[]), "EmptyReply", None, None),
]


@pytest.mark.parametrize(
    ("fault", "kind", "status", "wait"),
    [row[1:] for row in TRANSIENT],
    ids=[r[0] for r in TRANSIENT],
)
async def test_what_may_pass_is_transient(
    build: Build, fault: Scripted, kind: str, status: int | None, wait: float | None
) -> None:
    """A fault that may be gone the next time keeps its class, status and wait of at most 60 s."""
    with pytest.raises(TransientModelError) as raised:
        await ask(build, fault)

    error = raised.value
    assert (error.kind, error.status, error.retry_after) == (kind, status, wait)


PERMANENT = [
    ("400", failing(400), "BadRequestError", 400),
    ("401", failing(401), "AuthenticationError", 401),
    ("401 of a rate limit", failing(401, message="rate limited"), "AuthenticationError", 401),
    ("402", failing(402), "PaymentRequiredError", 402),
    ("403", failing(403), "PermissionDeniedError", 403),
    ("404", failing(404, "model_not_found"), "NotFoundError", 404),
    ("413", failing(413), "RequestTooLargeError", 413),
    ("422", failing(422), "BadRequestError", 422),
    ("quota", failing(429, "insufficient_quota"), "insufficient_quota", 429),
    (
        "context",
        failing(400, "context_length_exceeded", "This model's maximum context length is 8 tokens"),
        "ContextWindowExceededError",
        400,
    ),
]


@pytest.mark.parametrize(
    ("fault", "kind", "status"), [row[1:] for row in PERMANENT], ids=[r[0] for r in PERMANENT]
)
async def test_what_stays_is_permanent(
    build: Build, fault: Scripted, kind: str, status: int
) -> None:
    """A fault that every such call would have is permanent, of the provider's class."""
    with pytest.raises(PermanentModelError) as raised:
        await ask(build, fault)

    assert (raised.value.kind, raised.value.status) == (kind, status)


LOST = [
    ("filter", Scripted(finish_reason="content_filter"), "ContentPolicyViolationError"),
    ("refusal", Scripted(text=None, refusal="I can't"), "Refusal"),
    ("cut off", Scripted("The answer is", finish_reason="length"), "CutOff"),
    ("null", Scripted(text=None), "EmptyReply"),
    ("blank", Scripted(" \n"), "EmptyReply"),
]


@pytest.mark.parametrize(("reply", "kind"), [row[1:] for row in LOST], ids=[row[0] for row in LOST])
async def test_a_lost_reply_keeps_what_it_cost(build: Build, reply: Scripted, kind: str) -> None:
    """A reply that was filtered, refused, cut off or empty is lost, with its spending known."""
    with pytest.raises(SampleError) as raised:
        await ask(build, reply)

    error = raised.value
    assert (error.kind, error.spending, error.finish_reason) == (kind, SPENT, reply.finish_reason)


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
async def test_a_content_filter_that_answers_400_loses_one_sample(build: Build, code: str) -> None:
    """A 400 whose code names the content filter says nothing about other samples."""
    with pytest.raises(SampleError) as raised:
        await ask(build, failing(400, code))

    assert raised.value.finish_reason == "content_filter"
    assert raised.value.spending == Spending(calls=1)
