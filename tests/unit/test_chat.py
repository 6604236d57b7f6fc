"""What a request for a chat completion becomes, and what is refused in it, by its name."""

import json
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from commands.http.chat import ONLY, OWN, PASSED, SERVED, UNUSED, Chat, RefusedError, read_chat

HELLO = {"role": "user", "content": "Hello"}
FORMER = [HELLO, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Why?"}]


def body(model: str = "mull/ask", **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": [HELLO], **fields}).encode()


def read(model: str = "mull/ask", **fields: Any) -> Chat:
    return read_chat(body(model, **fields))


def fields_of(chat: Chat) -> dict[str, Any]:
    set_fields: dict[str, Any] = chat.request.model_dump(mode="json", exclude_unset=True)
    return set_fields


def refused(data: bytes) -> dict[str, Any]:
    with pytest.raises(RefusedError) as caught:
        read_chat(data)
    assert (caught.value.status, caught.value.again_seconds) in {(400, None), (404, None)}
    return caught.value.error


@pytest.mark.parametrize(
    ("model", "command", "subject"),
    [
        ("mull/ask", "ask", "question"),
        ("mull/reflect", "reflect", "query"),
        ("mull/turn", "turn", "message"),
        ("mull/agent", "agent", "prompt"),
    ],
)
def test_the_model_says_the_loop(model: str, command: str, subject: str) -> None:
    chat = read(model)

    assert (chat.loop.command, fields_of(chat)) == (command, {subject: "Hello"})
    assert len(SERVED) == 4


def test_the_model_behind_a_loop_stands_after_a_colon() -> None:
    """Names of models have colons of their own."""
    chat = read("mull/ask:ollama/llama3:8b")

    assert fields_of(chat) == {"question": "Hello", "model": "ollama/llama3:8b"}
    assert chat.models == {"mull/ask:ollama/llama3:8b"}


def test_all_models_that_a_run_may_ask_are_known() -> None:
    """So a key that may not ask one can't have it judge either."""
    judged = read("mull/reflect:a/b", mull={"judges": ["c/d", "e/f"]})

    assert judged.models == {"mull/reflect:a/b", "mull/reflect:c/d", "mull/reflect:e/f"}
    assert read("mull/agent", mull={"judge": "c/d"}).models == {"mull/agent", "mull/agent:c/d"}


def test_messages_become_the_system_s_the_earlier_ones_and_the_question() -> None:
    parts = [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]
    system = [{"role": "system", "content": parts}, {"role": "developer", "content": "Be kind."}]
    chat = read(messages=[*system, *FORMER])

    assert fields_of(chat) == {
        "question": "Why?",
        "system": "Be\nbrief.\n\nBe kind.",
        "messages": FORMER[:2],
    }


@pytest.mark.parametrize(
    ("model", "given", "fields"),
    [
        ("mull/ask", {"temperature": 0.2, "seed": 5}, {"temperature": 0.2, "seed": 5}),
        ("mull/agent", {"max_tokens": 90}, {"max_output_tokens": 90}),
        ("mull/ask", {"max_completion_tokens": 90}, {"max_output_tokens": 90}),
        ("mull/reflect", {"stop": "END"}, {"options": {"stop": ["END"]}}),
        ("mull/turn", {"stop": ["a", "b"]}, {"options": {"stop": ["a", "b"]}}),
        ("mull/turn", {"reasoning_effort": "high"}, {"think_level": "high"}),
        ("mull/turn", {"reasoning_effort": "minimal"}, {"think_level": "off"}),
        ("mull/ask", {"mull": {"answers": "number"}}, {"answers": "number"}),
        ("mull/ask", {"top_p": 0.5, "mull": {"options": {"top_k": 4}}},
         {"options": {"top_p": 0.5, "top_k": 4}}),
        ("mull/turn", {"stream": True}, {"stream": True}),
        ("mull/ask", {"stream": True}, {}),
        ("mull/ask", {"n": 1, "logprobs": False, "response_format": {"type": "text"}}, {}),
        ("mull/ask", {"user": "u", "metadata": {"a": "b"}, "seed": None, "tools": []}, {}),
    ],
)  # fmt: skip
def test_fields_are_passed_on(model: str, given: dict[str, Any], fields: dict[str, Any]) -> None:
    chat = read(model, **given)
    found = fields_of(chat)
    del found[chat.loop.request.subject_field]

    assert found == fields


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"n": 2}, "n"),
        ({"n": True}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"reasoning_effort": "low"}, "reasoning_effort"),
        ({"wisdom": 5}, "wisdom"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"seed": 1.5}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_completion_tokens"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": {"a": 1}}, "stop"),
        ({"top_p": 2}, "top_p"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"mull": []}, "mull"),
        ({"mull": {"wisdom": 5}}, "mull.wisdom"),
        ({"mull": {"question": "Why?"}}, "mull.question"),
        ({"mull": {"system": "Be brief."}}, "mull.system"),
        ({"mull": {"model": "openai/x"}}, "mull.model"),
        ({"mull": {"options": 5}, "top_p": 1}, "mull.options"),
        ({"mull": {"options": {"top_k": -1}}, "top_p": 1}, "mull.options.top_k"),
        ({"mull": {"require": 0.8}}, "mull.require"),
        ({"mull": {"cancel_on_disconnect": 1}}, "mull.cancel_on_disconnect"),
        ({"mull": {"temperature": 1}, "temperature": 1}, "temperature"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": ["Hello"]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": [], "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role"),
        ({"messages": FORMER[:2]}, "messages"),
        ({"messages": [HELLO, {"role": "system", "content": "a"}, HELLO]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
         "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": 5, "text": "a"}]}]},
         "messages[0].content[0]"),
        ({"messages": [{**HELLO, "tool_calls": [{}]}]}, "messages[0].tool_calls"),
        # Half of a character, which no reply could be written with.
        ({"\ud800": 1}, "\ufffd"),
        ({"messages": [{**HELLO, "\ud800": 1}]}, "messages[0].\ufffd"),
        ({"messages": [{"role": "user", "content": "a" * 100_001}]}, "messages"),
    ],
)  # fmt: skip
def test_what_is_not_taken_is_named(given: dict[str, Any], param: str) -> None:
    """As a client writes it."""
    error = refused(body(**given))

    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert error["message"].startswith(f"{param}: ")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mull": {"anwers": 5}}, "mull.anwers: no such field. Did you mean answers?"),
        ({"mull": {"requires": True}}, "mull.requires: no such field. Did you mean require?"),
        ({"temprature": 1}, "temprature: no such field. Did you mean temperature?"),
        ({"budget_usd": 1}, 'budget_usd: no such field. Put it into "mull": {"budget_usd": ...}'),
        ({"require": True}, 'require: no such field. Put it into "mull": {"require": ...}'),
        ({"wisdom": 5}, "wisdom: no such field"),
    ],
)
def test_a_field_that_there_is_not_has_a_hint(given: dict[str, Any], said: str) -> None:
    assert refused(body(**given))["message"] == said


@pytest.mark.parametrize(
    "given",
    [
        {"messages": FORMER},
        {"messages": [{"role": "system", "content": "a"}, HELLO]},
        {"stop": "a"},
    ],
)
def test_the_agent_has_no_place_for_what_comes_before_its_prompt(given: dict[str, Any]) -> None:
    assert "mull/agent" in refused(body("mull/agent", **given))["message"]


@pytest.mark.parametrize("model", ["gpt-5-mini", "ask", "mull/batch", "mull/", "", "mull/ask/x"])
def test_another_model_is_not_found(model: str) -> None:
    error = refused(body(model))

    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "mull/reflect" in error["message"]


@pytest.mark.parametrize(
    "data",
    [b"", b"no", b"[]", b'"a"', b"{", b"[" * 200_000, b'{"model": "mull/ask", "model": "x"}',
     b'{"model": 5}', b"\xff\xfe", b"null", b'{"messages": []}'],
)  # fmt: skip
def test_rubbish_is_refused(data: bytes) -> None:
    assert refused(data)["type"] == "invalid_request_error"


def test_an_endless_integer_is_refused_in_plain_words() -> None:
    said = refused(b'{"model": "mull/ask", "seed": ' + b"9" * 500_000 + b"}")["message"]

    assert said == (
        "The body can't be read: an integer has 500,000 digits; at most 4,300 are read."
    )


def test_a_refusal_quotes_nothing_but_names() -> None:
    """A prompt may be a secret, and errors are logged by clients and proxies."""
    secret = [{"role": "user", "content": [{"type": "text", "text": ["sesame"]}]}]

    assert "sesame" not in json.dumps(refused(body(messages=secret)))
    assert "sesame" not in json.dumps(refused(body(mull={"answers": "sesame"})))


NAMES = st.sampled_from(sorted({*ONLY, *OWN, *PASSED, *UNUSED, "options", "judges", "criteria"}))
PARTS = st.sampled_from(["role", "content", "type", "text", "name", "tool_calls"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@drawn(
    model=st.sampled_from(sorted(SERVED)) | JSON,
    messages=st.just([HELLO]) | st.lists(st.dictionaries(PARTS, JSON)) | JSON,
    more=st.dictionaries(NAMES, JSON, max_size=4),
)
def test_any_json_is_read_or_refused(model: Any, messages: Any, more: dict[str, Any]) -> None:
    """With an error of OpenAI's form, and never by another error."""
    data = json.dumps({"model": model, "messages": messages, **more}).encode()
    try:
        fine: Any = read_chat(data).model == model
    except RefusedError as error:
        fine = error.status in {400, 404} and json.dumps(error.document)

    assert fine
