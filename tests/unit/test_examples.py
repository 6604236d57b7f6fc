"""The files of examples/: each is what its command takes."""

from functools import partial
from pathlib import Path

from activities.tools.functions import tools_in
from bench import simulated_logs
from commands.measuring.maps import LEAST_ISOTONIC
from commands.measuring.replay import read_recording
from commands.plans import read_lines
from mull.critique.criteria import complexity
from mull.critique.loop import should_reflect
from mull.critique.request import ReflectOnResultRequest
from mull.request import parse_request
from mull.sampling.prompts import build_prompt
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.rules import Stopping
from mull.turn.approval import ToolRule, approve

EXAMPLES = Path(__file__).parents[2] / "examples"


def text_of(name: str) -> str:
    return (EXAMPLES / name).read_text(encoding="utf-8")


def test_every_file_has_its_command() -> None:
    """The README has a command for each file beside it, and links to it."""
    names = {path.name for path in EXAMPLES.iterdir()} - {"README.md"}
    readme = text_of("README.md")

    assert [name for name in names if f"({name})" not in readme] == []
    assert [name for name in names if f"examples/{name}" not in readme] == []


def test_the_request_is_valid() -> None:
    """The JSON request starts a run as it stands, with the rule and the bounds that it names."""
    request = SelfConsistencyRequest.model_validate_json(text_of("request.json"))

    assert (request.answers, request.rule, request.quorum) == ("number", "predictive", 3)
    assert (request.budget_tokens, request.budget_seconds) == (20_000, 600)


def test_the_request_for_reflection_is_valid() -> None:
    """It starts a run as it stands, is worth reflecting on, and waits where it is poor."""
    request = ReflectOnResultRequest.model_validate_json(text_of("reflect.json"))

    assert (request.criteria, request.max_revisions) == ("documentation", 2)
    assert request.review_below == 0.5
    assert should_reflect(request, complexity(request.query)).stop_reason is None


def test_the_other_inputs_are_valid() -> None:
    """Each question starts a run, and the draft to judge is not skipped."""
    for name in ("tickets.txt", "melting-ice.txt", "refund-policy.txt"):
        assert SelfConsistencyRequest(question=text_of(name)).question == text_of(name).strip()
    request = ReflectOnResultRequest(
        query=text_of("late-parcel.txt"), draft=text_of("late-parcel-draft.txt")
    )
    assert should_reflect(request, complexity(request.query)).stop_reason is None


def test_the_template_has_a_place_for_the_question() -> None:
    """The question stands in the template once, and its place does not remain."""
    prompt = build_prompt("What is 6 times 7?", text_of("careful-prompt.txt"), "number")

    assert prompt.count("What is 6 times 7?") == 1
    assert "{question}" not in prompt


def test_the_recorded_answers_show_every_case() -> None:
    """Enough for every rule, 12 are judged: some unreadable, one a tie, one majority wrong."""
    read = partial(read_recording, "number")
    questions = read_lines(EXAMPLES / "recorded-answers.jsonl", read, "", exact=True)
    unread = sum(question.votes.count(-1) for question in questions)
    right = [sum(question.right or ()) for question in questions]

    assert (unread, right) == (6, [12, 11, 10, 9, 9, 9, 9, 12, 6, 6, 3, 2])
    assert min(len(question.votes) for question in questions) >= Stopping().max_responses


def test_the_simulated_answers_are_made_by_their_command() -> None:
    """They are small, enough for a map by isotonic regression, and each says what it is."""
    text = text_of("simulated-answers.jsonl")
    lines = text.splitlines()

    assert lines == list(simulated_logs.example())
    assert (len(lines), len(text) < 60_000) == (2 * LEAST_ISOTONIC, True)
    assert all('"model":"simulated/' in line for line in lines)


def test_the_tools_are_tools_and_the_rules_rules() -> None:
    """A worker takes both files: one tool reads, one writes, and bolts are not ordered."""
    tools = tools_in(str(EXAMPLES / "own_tools.py"))
    rules = parse_request(tuple[ToolRule, ...], text_of("tool-rules.json"))

    assert [one.__name__ for one in tools] == ["stock", "order"]
    assert [
        approve("order", {"part": part}, rules, read_only=False).action for part in ("bolt", "nut")
    ] == ["deny", "ask"]
