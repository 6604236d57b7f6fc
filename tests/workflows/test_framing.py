"""What a model is asked with reaches every call of a run, and stands in its history."""

from typing import Any

import pytest
from temporalio.client import Client

from mull.request import Framing
from tests.conftest import ask, reflect
from tests.scripted import ScriptedCritic, ScriptedModel, reply

WHOLE: dict[str, Any] = {
    "system": "Be kind.",
    "context": ["It is due in May."],
    "messages": [{"role": "user", "content": "Hi"}],
    "options": {"top_p": 0.9, "stop": ["END"]},
}
FRAMING = Framing.model_validate(WHOLE)


async def test_every_sample_is_asked_with_it(client: Client) -> None:
    """The prompt itself stays what it was."""
    model = ScriptedModel(["a"] * 5)

    result = await ask(client, model, **WHOLE)

    assert (result.final_answer, len(model.calls)) == ("a", 5)
    for call in model.calls:
        assert (call.messages, call.options) == (FRAMING.chat(call.prompt), FRAMING.options)


async def test_whoever_writes_a_draft_is_asked_with_it(client: Client) -> None:
    """A revision like the first draft; a judge sees the material, and has no options."""
    lacking = reply("first").model_copy(update={"left_out": ("top_p",)})
    model = ScriptedCritic([lacking, "second"], [0.4, 0.9])

    result = await reflect(client, model, **WHOLE)

    written, judged = model.calls[::2], model.calls[1::2]
    for call in written:
        assert (call.messages, call.options) == (FRAMING.chat(call.prompt), FRAMING.options)
    for call in judged:
        assert (call.messages, call.options) == ((), Framing().options)
        assert '"It is due in May."' in call.prompt
    assert (result.draft, len(written), len(judged)) == ("second", 2, 2)
    assert result.warnings[0].startswith("top_p was not sent: ")


@pytest.mark.parametrize("given", [True, False])
async def test_a_page_of_the_material_may_be_cited(client: Client, given: bool) -> None:
    """By a draft of one's own, and by one that is checked where it is written."""
    text = "It is so [1], as https://a.org/b says, and as everybody knows."
    fields = {
        "sources": ["See https://c.org/d."],
        "context": ["See https://a.org/b."],
        "guardrails": ["unknown_citation"],
        **({"draft": text} if given else {}),
    }

    result = await reflect(client, ScriptedCritic([text], [0.9]), **fields)

    assert (result.score, result.stop_reason) == (0.9, "passed")
