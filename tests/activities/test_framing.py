"""What answers and drafts are asked with, through LiteLLM's adapter, against a scripted server."""

import json
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.critique import CritiqueActivities, JudgingTask, RevisionTask, WritingTask
from activities.language_model.port import Endpoint, LanguageModel
from activities.sampling import SampleTask, SamplingActivities
from mull.critique.criteria import PRESETS
from mull.critique.evaluation import Feedback
from mull.critique.request import ReflectOnResultRequest
from mull.request import Framing
from mull.sampling.request import SelfConsistencyRequest
from tests.activities.scripted_calls import KEY, NAME, Build
from tests.scripted_endpoint import ScriptedEndpoint

FRAMING = Framing.model_validate(
    {
        "system": "Be kind.",
        "context": ["It is due in May."],
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
        "options": {"top_p": 0.9, "top_k": 40, "min_p": 0.1, "stop": ["END"]},
    }
)
REQUEST = ReflectOnResultRequest(
    query="Why?", max_output_tokens=64, call_timeout_seconds=60, **dict(FRAMING)
)
SAMPLE = SampleTask.of(
    SelfConsistencyRequest(
        question="Why?", max_output_tokens=64, sample_timeout_seconds=60, **dict(FRAMING)
    ),
    index=0,
    seed=7,
)
DRAFT = WritingTask.of(REQUEST, index=0)
REVISION = RevisionTask.of(
    REQUEST, index=0, draft="So.", score=None, feedback=(Feedback(advice="Say when."),)
)
JUDGEMENT = JudgingTask.of(
    REQUEST, index=0, draft="So.", criteria=PRESETS["general"], threshold=0.7, writer=None
)


async def asked(build: Build, task: Any, served: str = "scripted") -> tuple[Any, dict[str, Any]]:
    """Return what an activity made of a reply, and the request that was sent."""
    with ScriptedEndpoint(['{"answer": "May"}']) as server:
        endpoint = Endpoint(served, server.url, KEY, free=True)
        model: LanguageModel = build(NAME, {NAME: endpoint})
        critic = CritiqueActivities(model)
        asked_by: dict[type, Any] = {
            SampleTask: SamplingActivities(model).sample_answer,
            WritingTask: critic.write_draft,
            RevisionTask: critic.revise_draft,
            JudgingTask: critic.judge_draft,
        }
        said = await ActivityEnvironment().run(asked_by[type(task)], task)
    return said, server.requests[0]


@pytest.mark.parametrize("task", [SAMPLE, DRAFT, REVISION], ids=["sample", "draft", "revision"])
async def test_whoever_writes_is_asked_with_all_of_it(build: Build, task: Any) -> None:
    """The system message, what was said before, quoted material, and options by their names."""
    said, sent = await asked(build, task)

    assert [(one["role"], one["content"]) for one in sent["messages"][:-1]] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("assistant", "Hello"),
    ]
    material, _, prompt = sent["messages"][-1]["content"].partition("\n\nThe message:\n")
    assert material.splitlines()[1:] == ['1. "It is due in May."']
    assert "Why?" in prompt
    given = json.loads(FRAMING.options.model_dump_json(exclude_none=True))
    assert {name: sent.get(name) for name in given} == given
    assert said.left_out == ()


@pytest.mark.parametrize("task", [SAMPLE, DRAFT], ids=["sample", "draft"])
async def test_options_that_a_provider_lacks_are_left_out(build: Build, task: Any) -> None:
    """The reply names them, and the result warns of each."""
    said, sent = await asked(build, task, "o3-mini")

    assert said.left_out == ("temperature", "top_p")
    assert (sent["stop"], "top_p" in sent) == (["END"], False)


async def test_a_judge_has_material_alone(build: Build) -> None:
    """Neither the writer's system message and options, nor a conversation of its own."""
    _, sent = await asked(build, JUDGEMENT)

    [message] = sent["messages"]
    assert all(f'"{text}"' in message["content"] for text in ("It is due in May.", "Hi", "Hello"))
    assert "Be kind." not in message["content"]
    assert {"top_p", "top_k", "min_p", "stop"}.isdisjoint(sent)
