"""No text makes a function of the core slow, nor one that reads documents: time is linear."""

import gc
import importlib
import inspect
import json
import pkgutil
import sys
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import thread_time
from typing import get_args

import pytest

import mull
from activities.code_tests.activity import by_pytest
from activities.documents.formats import decode, html_lines, parts_of, text_lines
from activities.documents.roots import UnreadableError
from activities.environments import code
from activities.environments import documents as questions_of
from mull import details, replies, request, sheet, text
from mull.agents import loop as acting
from mull.agents import prompts as agent_prompts
from mull.agents.memory import Action, PlannerExample, ReflectorExample, Trajectory
from mull.agents.request import ReflexionRequest
from mull.critique.criteria import PRESETS, complexity
from mull.critique.evaluation import Feedback, parse_judgement
from mull.critique.forms import bad_python, defect, forms_asked, read, unclosed
from mull.critique.guardrails import Checked, addresses, check, known_guardrails
from mull.critique.prompts import build_draft_prompt, build_judge_prompt, build_revision_prompt
from mull.multipath import cases, extraction, markup, prompts, reflections, report, routing, verdict
from mull.multipath.parts import Critique, Passage
from mull.multipath.result import Source
from mull.multipath.suite import Case, Failure, Suite, TestFile
from mull.sampling import answers, result
from mull.sampling import prompts as questions
from mull.sampling.replay import recorded
from mull.sampling.request import AnswerKind, SelfConsistencyRequest
from mull.turn import conversation, tools

SIZES = (12_500, 25_000, 50_000, 100_000)
GENERAL = PRESETS["general"]
# The criteria of every preset: a guardrail that waits for some of them does its work.
EVERY = tuple({one.name: None for preset in PRESETS.values() for one in preset})
PIECES = [
    *"[]()`~|#*_-+=<>{}:;,.\"'!\\/09aé珊\u0301\x00 \n\t",
    *("  \n", "a\n", "> ", "- a\n", "1) a\n\n", "    [1]\n", "```\n", "``` ", "|-", "a|b\n-|-\n"),
    *("<!--", "<a ", "</", "<![CDATA[", "<|", "[1]", "[1,", "[^1]", "[a](", "[[a]", "](http://"),
    *("[a]: b\n", "http://", "http://a.b/", "Smith, ", "A and ", "10.1000/", "References\n\n"),
    *("[insert ", "a.b", "a-", "x1", "(a", "x = [", "lambda ", "def f(", '"a": ', '{"a":', "a: ["),
    *("1,000 ", "the ", "very ", "i can't ", "as an ai ", "as json ", "in one ", "word. ", "# ..."),
    *("ignore all ", "ignore the previous ", "score this ", "you are ", "judge: ", "END OF "),
    *("<think>", '{"criteria_scores": ', "clarity: 1", "=== draft 1 ===\n", "write python "),
]
MORE = [
    *("Answer: ", "\\boxed{", "**Answer**", "$\\frac{1}{2}$ ", "(A) ", "1.5e3 ", "1 000 ", "½"),
    *(">>> f(1)\n1\n", "assert f(1) == 1\n", "f(", "f(f(", "-", "not ", "[[", "'''", '"""', "\\"),
    *("def f():\n", "class A:\n", "@a\n", "if x:\n ", "# ", "1 == ", "a, ", "x1 = 1; ", "`a` "),
    *('{"answer": "', '{"mode": "code"}', '{"a": {', '"\\u', "\\ud83d", "</think>", "[1][2]"),
    *("\n\n[^1]: a", "| a | b |\n", "===\n", "<p>", "<td>", "<!", "&amp;", "&#", "\r", "\x0b"),
    *("[1-9]", "^[a[b]", "](a(b", "> > ", "<p>x"),
    *("...", "e.g. ", "Dr. ", "A. ", "! ", "1. a\n", "- [ ] ", "## Further Considerations\n"),
]  # fmt: skip


def guardrails(text: str) -> dict[str, Callable[[], object]]:
    """Every function of critiques that takes text, by its name, with this one in each place."""
    checked = Checked(query=text, draft=text, previous=text[:-1], sources=(text,), asks_for=EVERY)
    answer = Checked(query="Why?", draft=text, sources=("https://a.org/b",), asks_for=EVERY)
    forms = ("json", "yaml", "table", "python", "markdown")
    said = [Feedback(advice=text, place=text)]
    return {
        "read": lambda: read.__wrapped__(text),
        **{name: partial(check, checked, [name]) for name in known_guardrails()[1:]},
        "default": lambda: check(answer, ["default"]),
        **{form: partial(defect, text, form) for form in forms},
        **{f"{form} in it": partial(defect, text, form, alone=False) for form in forms},
        "forms_asked": lambda: forms_asked(text),
        "unclosed": lambda: unclosed(text),
        "python program": lambda: bad_python(text),
        "addresses": lambda: addresses(text),
        "complexity": lambda: complexity(text),
        "parse_judgement": lambda: parse_judgement(text, GENERAL, 0.7, text),
        "judge": lambda: build_judge_prompt(text, text, GENERAL, 0.7, sources=(text,)),
        "draft": lambda: build_draft_prompt(text, (text,), None),
        "revision": lambda: build_revision_prompt(text, text, said, (text,), None),
    }


def functions(worst: str) -> dict[str, Callable[[], object]]:
    """Every other function that takes text, by its name, with this one in each place."""
    passage = Passage(id="1", source="a", first_line=1, last_line=9, score=1, text=worst)
    sources = (Source(number=1, passage=passage),)
    failure = Failure(message=worst, test=worst, expected=worst, got=worst, traceback=worst)
    suite = Suite(origin="model", kind="cases", cases=(Case(call=worst, expected=worst),))
    critiques = (Critique(aspect="clarity", advice=worst, sentence=worst),)
    file = TestFile(name="a.py", text=worst or "-")
    kinds = get_args(AnswerKind)
    return {
        **{
            f"{of.__name__}.{name}": partial(getattr(of, name), worst)
            for of, names in {
                cases: "read_literal is_literal called entry_in statements parse_tests",
                extraction: "extract_code",
                markup: "cited uncited without_footnotes fenced_lines masked visible "
                "unfenced sentences plain_words",
                replies: "plain plain_text spoken after_thought words_so_far",
                routing: "parse_route build_route_prompt",
                request: "short_name user_message unambiguous_json",
                conversation: "read_object stated_confidence",
                tools: "read_arguments",
                acting: "answer_in",
                agent_prompts: "quoted_observation",
                code: "read_action",
                questions_of: "read_action stated",
                answers: "read_text read_choice find_marked claimed unwrapped normal_form "
                "read_number numeral",
                questions: "parse_reply parse_meaning",
                result: "answer_words",
                text: "claimed well_formed neutral revealed width fold words quoted encoded_size "
                "sentence",
            }.items()
            for name in names.split()
        },
        **{
            f"answers.read_answer {kind}": partial(answers.read_answer, kind, worst)
            for kind in kinds
        },
        "agents.planned": lambda: agent(worst).planned(worst),
        "agents.judge_prompt": lambda: agent_prompts.judge_prompt(worst, TRAJECTORY, worst),
        "agents.planner_prompt": lambda: agent(worst).planner_prompt,
        "agents.reflector_prompt": lambda: agent(worst).prompt("revising"),
        "code.solution": lambda: code.solution(worst, worst, "f"),
        "code.header": lambda: code.header(worst, "f"),
        "documents.sentences": lambda: questions_of.sentences("a.md", worst),
        "documents.metrics": lambda: questions_of.metrics(worst, worst),
        "details.code": lambda: details.code(worst, 50_000),
        "details.escaped": lambda: details.escaped(worst, 50_000),
        "cases.parsed": lambda: cases.parsed(worst, "exec"),
        "cases.calls": lambda: cases.calls(worst, "f"),
        "cases.steps": lambda: cases.steps(worst, "f"),
        "cases.runs_apart": lambda: cases.runs_apart(worst, worst, "f"),
        "cases.case_of": lambda: cases.case_of(worst, worst),
        "extraction.examples": lambda: extraction.examples(worst, None),
        "markup.stands_in": lambda: markup.stands_in(worst[:2_000], worst),
        "prompts.build_report_prompt": lambda: prompts.build_report_prompt(worst, sources, True),
        "prompts.build_refinement_prompt": lambda: prompts.build_refinement_prompt(
            worst, sources, worst, critiques, True
        ),
        "prompts.build_reflection_prompt": lambda: prompts.build_reflection_prompt(
            worst, sources, worst, True, worst
        ),
        "prompts.build_code_prompt": lambda: prompts.build_code_prompt(worst, sources, suite, None),
        "prompts.build_repair_prompt": lambda: prompts.build_repair_prompt(
            worst, sources, worst, failure, suite, None
        ),
        "prompts.build_tests_prompt": lambda: prompts.build_tests_prompt(worst, None, worst),
        "questions.build_prompt": lambda: questions.build_prompt(worst, worst, "exact"),
        "questions.hash_prompt": lambda: questions.hash_prompt(worst, "exact"),
        "questions.build_meaning_prompt": lambda: questions.build_meaning_prompt(*[worst] * 3),
        "request.near_name": lambda: request.near_name(worst, request.Framing.model_fields),
        "text.mark": lambda: text.mark("draft", [worst]),
        "text.unmistakable_mark": lambda: text.unmistakable_mark("draft", [worst]),
        "text.filled": lambda: text.filled(worst, {"{question}": worst}),
        "reflections.parse_reflection": lambda: reflections.parse_reflection(
            worst, worst, sources, True, worst
        ),
        "replies.read_reply": lambda: replies.read_reply(
            worst, "mode", routing.RouteReply, [worst]
        ),
        "replies.every_object": lambda: replies.every_object(worst, "a"),
        "report.with_checks": lambda: report.with_checks(worst, sources, critiques),
        "report.assemble": lambda: report.assemble(worst, [worst], sources, True),
        "conversation.build_summary_prompt": lambda: conversation.build_summary_prompt(
            [conversation.Message(role="user", content=worst)], worst, 200_000
        ),
        "tools.cut_middle": lambda: tools.cut_middle(worst, len(worst) // 2),
        "text.cut_encoded": lambda: text.cut_encoded(worst, len(worst) // 2),
        "text.cut_with_note": lambda: text.cut_with_note(worst, len(worst) // 2),
        "text.within": lambda: text.within(worst, 1_000_000),
        "request.parse_request": lambda: _request(worst),
        "sampling.recorded": lambda: recorded("number", [worst], worst),
        "sheet.signed": lambda: sheet.signed(worst, worst),
        "sheet.ended_words": lambda: sheet.ended_words(f"finished by {worst}"),
        "text.terminal_safe": lambda: text.terminal_safe(worst, len(worst) // 2),
        "verdict.bounded": lambda: verdict.bounded(failure),
        "verdict.same": lambda: verdict.same(worst, f"{worst}."),
        "documents.text": lambda: list(parts_of(text_lines(worst, headings=True), lambda: None)),
        "documents.html": lambda: list(parts_of(html_lines(worst, lambda: None), lambda: None)),
        "documents.decode": lambda: decode(worst.encode("latin-1", "replace")),
        "tests.by_pytest": lambda: by_pytest(Suite(origin="user", kind="script", file=file)),
    }


TRAJECTORY = Trajectory(items=(Action(content="a", step=1),))


def agent(task: str) -> acting.Reflexion:
    """An agent at the end of an episode that failed, for this task."""
    known = ReflexionRequest(environment="code", task="t")
    made = acting.Reflexion(known, workflow_id="w")
    example = PlannerExample(task=task, trajectory=TRAJECTORY)
    reflected = ReflectorExample(context=example, reflection=task)
    made.initialise(task, "Do it.", ("a",), (example,), (reflected,))
    made.begin_episode()
    made.planned("[answer] a")
    made.evaluated(0, task, {}, correct=False)
    made.begin_episode()
    return made


# What was read once would take no time the second time.
CACHED = [each for each in vars(markup).values() if hasattr(each, "cache_clear")]


def taken(call: Callable[[], object]) -> float:
    """The CPU seconds of one call in this thread; it may refuse its text."""

    def refusable() -> None:
        with suppress(UnreadableError, ValueError, SyntaxError):
            call()

    for each in CACHED:
        each.cache_clear()
    gc.disable()
    start = thread_time()
    try:
        refusable()
        return thread_time() - start
    finally:
        gc.enable()


def is_slow(calls: Sequence[Callable[[], object]]) -> bool:
    """Tell whether 100 kB take more than three times as long as 50 kB, or three seconds.

    The calls are with texts of SIZES, the smaller ones first: most functions are so fast for those
    that even a quadratic one would take under 0.25 seconds for 100 kB, and nothing is too slow
    then. A busy machine may take some more, but not each of five times.
    """
    took = []
    for size, call in zip(SIZES, calls, strict=True):
        took.append(taken(call))
        if took[-1] * (SIZES[-1] / size) ** 2 < 0.25:
            return False
    *_, half, full = took
    for _ in range(4):
        if full < 3 * half:
            break
        half, full = max(half, taken(calls[-2])), min(full, taken(calls[-1]))
    return full >= 3 * half or full >= 3


def _request(worst: str) -> None:
    for given in (worst, json.dumps({"question": worst}), json.dumps({worst: 1})):
        with suppress(ValueError):
            request.parse_request(SelfConsistencyRequest, given)


Table = Callable[[str], dict[str, Callable[[], object]]]
# Of the pieces that the guardrails are timed with every fourth is enough for the others.
TIMED = [
    *((guardrails, piece) for piece in PIECES),
    *((functions, piece) for piece in [*PIECES[::4], *MORE]),
]


@pytest.mark.parametrize(("table", "piece"), TIMED)
def test_no_repeated_piece_is_slow(table: Table, piece: str) -> None:
    """No function is slow for a text that repeats the worst there is."""
    sized = [table((piece * size)[:size]) for size in SIZES]

    slow = [name for name in sized[0] if is_slow([calls[name] for calls in sized])]

    assert slow == []


@pytest.mark.parametrize(("power", "slow"), [(1, False), (1.4, False), (1.8, True), (2, True)])
def test_what_is_not_linear_is_found(
    monkeypatch: pytest.MonkeyPatch, power: float, slow: bool
) -> None:
    """Of functions that take 0.3 seconds for 100 kB those are slow that grow much faster."""
    monkeypatch.setattr(sys.modules[__name__], "taken", lambda call: call())

    calls = [partial(pow, 0.3 ** (1 / power) * size / SIZES[-1], power) for size in SIZES]

    assert is_slow(calls) == slow


NO_TEXTS = (
    "same_model grant replace score thing_words guardrail room room_for run_sheet table spaced "
    "draft_table decision_table tally_words stopped details fitted approve thinking "
    "turn_id output_limit time_out model_name option"
)


def test_every_function_that_takes_text_is_timed() -> None:
    """A public function of the core with a text among its inputs is in one of the two tables."""
    timed = {name.split()[0].rpartition(".")[2] for name in functions("a")}
    timed |= {"parse_judgement", "defect", "check", "read", "complexity", "forms_asked", "unclosed"}
    timed |= {"bad_python", "addresses", "build_draft_prompt", "build_revision_prompt"}
    timed |= {"build_judge_prompt", "told_judge", *NO_TEXTS.split()}
    # Called by `with_checks` and `assemble`, which are timed.
    timed |= {"blocks", "split", "check_report"}
    timed |= {"written", "explain_part", "queue_of", "quota_id"}

    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    core = project["tool"]["importlinter"]["contracts"][0]["source_modules"]
    for found in pkgutil.walk_packages(mull.__path__, "mull."):
        if not f"{found.name}.".startswith(tuple(f"{name}." for name in core)):
            continue
        module = importlib.import_module(found.name)
        for name, member in inspect.getmembers(module, inspect.isfunction):
            taken_by = inspect.signature(member).parameters.values()
            kinds = [str(each.annotation) for each in taken_by]
            takes = {"<class 'str'>", "str | None", "bytes | str"} & set(kinds)
            if takes and member.__module__ == module.__name__ and not name.startswith("_"):
                assert name in timed, f"{found.name}.{name}"
