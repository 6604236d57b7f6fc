"""What the reflection on a report is asked."""

import json
import re

from reflection.multipath.reflections import reflection_schema
from reflection.multipath.report_prompts import build_reflection_prompt
from tests.unit.multipath.research.sourced import REPORT, SOURCES


def test_all_that_is_checked_is_data() -> None:
    """Request, sources and report are JSON strings, each on its own line."""
    prompt = build_reflection_prompt("How\nold?", SOURCES, REPORT, creative=True)

    request = re.search(r"^Request: (.*)$", prompt, re.MULTILINE)
    report = re.search(r"^Report: (.*)$", prompt, re.MULTILINE)
    passage = re.search(r"^Source \[1\], from \"docs/1.md\", line 1: (.*)$", prompt, re.MULTILINE)
    assert request is not None
    assert report is not None
    assert passage is not None
    texts = [json.loads(each[1]) for each in (request, report, passage)]
    assert texts == ["How\nold?", REPORT, "The dam was built in 1931."]


def test_the_creative_protocol() -> None:
    """The protocol's own question is asked where ideas are wanted, and nowhere else."""
    question = (
        "Are there any external concepts or frameworks that could enhance this analysis? For "
        "example, could this formulation be viewed as a Markov Decision Process?"
    )

    with_ideas = build_reflection_prompt("q", SOURCES, REPORT, creative=True)
    without = build_reflection_prompt("q", SOURCES, REPORT, creative=False)

    assert question in with_ideas
    assert '"suggestions": ["..."]' in with_ideas
    assert "suggest" not in without
    assert list(reflection_schema(True)["properties"]) == ["issues", "consistent", "suggestions"]
    assert list(reflection_schema(False)["properties"]) == ["issues", "consistent"]


def test_without_sources_there_is_nothing_to_check_against() -> None:
    """Where no source was found every citation is an issue, and the request is the measure."""
    prompt = build_reflection_prompt("q", [], REPORT, creative=False)

    assert "\nNo source was found.\nReport:" in prompt
    assert "every [n] and every source from memory is an issue" in prompt


def test_asking_again_says_what_was_wrong() -> None:
    """A second question ends with the error of the first reply."""
    prompt = build_reflection_prompt("q", SOURCES, REPORT, creative=True, error="it is empty")

    assert prompt.endswith("could not be used: it is empty. Reply again, in the form above.")
