from datetime import UTC, datetime

import pytest

from activities.language_model.errors import one_line, read_error, retry_after_seconds, status_of
from activities.language_model.port import PermanentModelError, SampleError, TransientModelError

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
PROMPT = (
    'Think step by step.\nQuestion: how many "angels" fit on the head of a pin? '
    "针尖上究竟能站多少位天使呢"
)
QUOTA = {"code": "insufficient_quota"}


class ProviderError(Exception):
    def __init__(self, message: str = "no", **attributes: object) -> None:
        super().__init__(message)
        for name, value in attributes.items():
            setattr(self, name, value)


class RateLimitError(ProviderError):
    pass


class InternalServerError(ProviderError):
    pass


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("-5", 0.0),
        ("61", 60.0),
        ("inf", 60.0),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Sat, 21 Nov 2026 12:00:20 GMT", 20.0),
        ("Sat, 21 Nov 2026 12:00:20 -0000", 20.0),
        ("Sat, 21 Nov 2026 13:00:20 +0100", 20.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("Fri, 31 Dec 2099 23:59:59 GMT", 60.0),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_at_most_60(
    header: str, seconds: float | None
) -> None:
    """A Retry-After header, in whichever form, becomes 0 to 60 seconds, or None."""
    assert retry_after_seconds(header, NOW) == seconds


@pytest.mark.parametrize(
    ("status_code", "status"),
    [(429, 429), ("503", 503), ("overloaded", None), (None, None), ("", None), (0, None)],
)
def test_only_an_http_status_is_a_status(status_code: object, status: int | None) -> None:
    """A provider's word in the place of a status is no status."""
    assert status_of(ProviderError(status_code=status_code)) == status


@pytest.mark.parametrize(
    ("error", "expected", "kind"),
    [
        (ProviderError(status_code="overloaded"), TransientModelError, "ProviderError"),
        (ProviderError(), TransientModelError, "ProviderError"),
        (ProviderError(status_code=200), TransientModelError, "ProviderError"),
        (ProviderError(status_code=403), PermanentModelError, "ProviderError"),
        (RateLimitError(status_code=429), TransientModelError, "RateLimitError"),
        (RateLimitError(status_code=429, body=QUOTA), PermanentModelError, "insufficient_quota"),
        # A code that only the first exception of a chain has.
        (
            RateLimitError(status_code=429, __cause__=ProviderError(body=QUOTA)),
            PermanentModelError,
            "insufficient_quota",
        ),
        (ProviderError(code="content_filter"), SampleError, "ContentPolicyViolationError"),
        (
            InternalServerError("Missing credentials. Please pass an `api_key`", status_code=500),
            PermanentModelError,
            "AuthenticationError",
        ),
        (
            InternalServerError("No module named 'google.auth'", status_code=500),
            PermanentModelError,
            "ImportError",
        ),
    ],
)
def test_an_error_is_permanent_by_its_status_or_its_words(
    error: ProviderError, expected: type[Exception], kind: str
) -> None:
    """A status, a code or a few known phrases decide; whatever else is unknown may be retried."""
    read = read_error(error, "", ())

    assert type(read) is expected
    assert read.kind == kind


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("litellm.RateLimitError: RateLimitError: OpenAIException - slow down", "slow down"),
        ("litellm.Timeout: Timeout Error: OpenAIException - no", "no"),
        ("Connection error.", "Connection error."),
        ("two\n\n  lines", "two lines"),
        ("", "the provider gave no reason"),
        ('XException - {"error": {"type": "x", "message": "say \\"when\\""}}', 'say "when"'),
        ("boom\nTraceback (most recent call last):\n  File x", "boom"),
        ("Cannot connect to host a.b:443 ssl:<ssl.SSLContext object at 0x7f2> [x]",
         "Cannot connect to host a.b:443 [x]"),
        ("very long, " * 100, ("very long, " * 28)[:299] + "…"),
        ("Incorrect API key provided: sk-proj-abc123def456.", "Incorrect API key provided: [key]."),
        ("Incorrect API key provided: sk-ab***wxyz.", "Incorrect API key provided: [key]."),
        ("header Authorization: Bearer abc.def", "header Authorization: Bearer [key]"),
        ("key AIzaSyD4x8Q2mN0pRsTuVwXyZ refused", "key [key] refused"),
        ("at https://me:secret@host/v1", "at https://[key]@host/v1"),
        ("token 0123456789abcdef0123456789abcdef", "token [key]"),
        ("the word opensesame is wrong", "the word [key] is wrong"),
        ("the word opensesa is wrong", "the word [key] is wrong"),
        ("the word o p e n s e s a me is wrong", "the word [key] is wrong"),
        ("the word opense is wrong", "the word opense is wrong"),
        ("no model claude-3-5-sonnet-20240620", "no model claude-3-5-sonnet-20240620"),
        ("bad input 'how many angels fit on'", "bad input '[prompt]'"),
        (r"bad input: how many \"angels\" fit\non the head, sir", "bad input: [prompt], sir"),
        (f"bad: {PROMPT[-13:]!a}", "bad: '[prompt]'"),
        ("step back", "step back"),
    ],
)  # fmt: skip
def test_a_message_is_one_short_line_that_anyone_may_read(text: str, line: str) -> None:
    """Class names, JSON and tracebacks are taken off; keys and the prompt, quoted too, masked."""
    assert one_line(text, PROMPT, ["opensesame"]) == line
