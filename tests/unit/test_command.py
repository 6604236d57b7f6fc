"""What is typed after `ask`, `reflect` and `agent`: the request it makes, and each mistake's line.

Options come from the fields of a request: their names, help, bounds and defaults stand there.
"""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import typer
from temporalio.service import RPCError, RPCStatusCode

import starter
from commands import command, pages, start
from mull import handle
from mull.batch.request import BatchPage
from mull.critique import guardrails
from mull.critique.criteria import PRESETS
from mull.critique.request import ReflectOnResultRequest
from mull.errors import RequestError
from mull.handle import Run
from mull.loops import CRITIQUE, SAMPLING
from mull.multipath.request import Limits, MultiPathRequest
from mull.request import Request, Review
from mull.sampling.request import SelfConsistencyRequest
from tests.unit.conftest import Typed, typed_app
from worker import main as worker_main

Type = Callable[..., Typed]
Capture: TypeAlias = pytest.CaptureFixture[str]
Patch: TypeAlias = pytest.MonkeyPatch
REQUESTS: dict[str, type[Request]] = {
    "ask": SelfConsistencyRequest,
    "reflect": ReflectOnResultRequest,
    "agent": MultiPathRequest,
}
SUBJECTS = {"ask": "question", "reflect": "query", "agent": "prompt"}
# What a command takes by an option of another form: a file, a list, a flag.
OTHERWISE = {
    "ask": {"question", "prompt_template"},
    "reflect": {"query", "draft", "sources", "judges", "guardrails"},
    "agent": {"prompt", "judge", "tests", "packages", "limits", "embedding_model"},
}
TESTS = "from solution import add\n"
# Beside what the fixture writes: the options as typed, and what each makes of the request.
TYPED: dict[str, dict[str, Any]] = {
    "--seed 7 --budget-usd 0.5": {"seed": 7, "budget_usd": 0.5},
    "--model openai/scripted": {"model": "openai/scripted"},
    "--review-timeout 90": {"review_timeout_seconds": 90.0},
}
REFLECT: dict[str, dict[str, Any]] = {
    "--judge openai/a --judge openai/b": {"judges": ("openai/a", "openai/b")},
    "--confidence-threshold 0.8": {"score_threshold": 0.8},
    "--call-timeout-seconds 20": {"call_timeout_seconds": 20.0},
    "--format markdown --review-below 0.3": {"format": "markdown", "review_below": 0.3},
    "--guardrail refusal --no-guardrails": {"guardrails": ("refusal",)},
    "--no-reflect --synthesis-follows": {"reflect": False, "synthesis_follows": True},
    "--draft FILE": {"draft": TESTS},
    "--source FILE": {"sources": (TESTS.strip(),)},
    "--criterion tone*2=Courteous.": {
        "criteria": ({"name": "tone", "meaning": "Courteous.", "weight": 2.0},)
    },
}
AGENT: dict[str, dict[str, Any]] = {
    "--docs docs/adr": {"docs": os.path.abspath("docs/adr")},  # noqa: PTH100 - as it is typed
    "--judge openai/judge": {"judge": "openai/judge"},
    "--call-timeout 20": {"call_timeout_seconds": 20.0},
    "--no-creative --review-open": {"creative": False, "review_open": True},
    "--language python --entry add": {"language": "python", "entry": "add", "mode": "code"},
    "--packages pandas,scipy": {"packages": ("pandas", "scipy")},
    "--tests FILE": {"tests": {"name": "test_add.py", "text": TESTS}},
    "--wall-seconds 3 --memory-mb 128": {
        "limits": {**Limits().model_dump(), "wall_seconds": 3.0, "memory_mb": 128}
    },
}


def parameters(name: str) -> dict[str, Any]:
    command: Any = typer.main.get_command(typed_app())
    return {one.name: one for one in command.commands[name].params}


@pytest.mark.parametrize("name", REQUESTS)
def test_every_field_has_its_option(name: str) -> None:
    """A field that is added to a request and forgotten on the command line is found here."""
    options = {parameter.partition("__")[0] for parameter in parameters(name)}

    assert set(REQUESTS[name].model_fields) - options - OTHERWISE[name] == set()


@pytest.mark.parametrize(("name", "more"), [("reflect", REFLECT), ("agent", AGENT)])
def test_each_option_is_a_field_of_the_request(
    typed: Type, tmp_path: Path, name: str, more: dict[str, dict[str, Any]]
) -> None:
    """What is typed arrives in the workflow's one input, and nothing else differs from defaults."""
    file = tmp_path / "test_add.py"
    file.write_text(TESTS)
    table = {**TYPED, **more}
    words = [str(file) if word == "FILE" else word for line in table for word in line.split()]
    wanted = {field: value for fields in table.values() for field, value in fields.items()}
    whole, plain = typed(name, "What?", *words), typed(name, "What?").request

    assert whole.code == 0
    assert whole.request.model_dump() == {**plain.model_dump(), **wanted}
    assert plain == REQUESTS[name].model_validate({SUBJECTS[name]: "What?"})


@pytest.mark.parametrize("name", ["ask", "reflect"])
def test_what_a_model_is_asked_with_comes_from_files(
    typed: Type, tmp_path: Path, name: str
) -> None:
    """Texts come as they stand, messages as JSON, and settings with their own types."""
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    file, talk = tmp_path / "a.txt", tmp_path / "talk.json"
    file.write_text("It is\nso.")
    talk.write_text(json.dumps(said))
    files = ["--system", file, "--context", file, "--context", file, "--messages", talk]
    settings = ["top_p=0.9", "top_k=40", "stop=a=b", "stop=END"]

    words = [*map(str, files), *(word for one in settings for word in ("--set", one))]
    ended = typed(name, "What?", *words)

    assert ended.code == 0
    assert ended.request.framing.model_dump(exclude_defaults=True) == {
        "system": "It is\nso.",
        "context": ("It is\nso.", "It is\nso."),
        "messages": tuple(said),
        "options": {"top_p": 0.9, "top_k": 40, "stop": ("a=b", "END")},
    }


def test_models_can_come_from_the_environment(typed: Type, monkeypatch: Patch) -> None:
    """MULL_JUDGE_MODEL stands for --judge, and MULL_MODEL for --model."""
    monkeypatch.setenv("MULL_JUDGE_MODEL", "openai/judge")
    monkeypatch.setenv("MULL_MODEL", "openai/scripted")

    reflected, walked = (typed(name, "What?").request for name in ("reflect", "agent"))

    assert (reflected.judges, reflected.model) == (("openai/judge",), "openai/scripted")
    assert (walked.judge, walked.model) == ("openai/judge", "openai/scripted")


def test_an_option_says_what_its_field_says() -> None:
    """Description, range, choices and default stand once, in the request."""
    known = parameters("reflect")

    revisions = (
        "Revisions after the first draft; in `agent` it counts drafts; 0 to 10; 1 by default."
    )
    assert known["max_revisions"].help == revisions
    drafts = "The most drafts, the first one counted, unlike in `reflect`; "
    assert parameters("agent")["max_revisions"].help.startswith(drafts)
    assert known["panel"].metavar == "mean|median"
    assert all(name in known["criteria"].help for name in PRESETS)
    assert known["score_threshold"].help.endswith("or --confidence-threshold.")
    assert known["score_threshold__also"].hidden
    assert known["guardrail"].help == start.guardrail_help()


def test_the_list_of_commands_says_how_the_help_of_each_begins() -> None:
    """`mull --help` imports no command, so that its list stands apart from their docstrings."""
    commands = [one for some in starter.COMMANDS.values() for one in some.items()]
    for name, (place, said) in commands:
        command = getattr(import_module(f"commands.{place}"), "list_" if name == "list" else name)

        assert (inspect.getdoc(command) or "").split("\n\n")[0] == said


def test_help_says_which_guardrails_run_by_default(monkeypatch: Patch) -> None:
    """One of a user's own that runs only if it is named is not listed among the others."""
    known = {name: guardrails._GUARDRAILS[name] for name in guardrails.default_guardrails()}
    monkeypatch.setattr(guardrails, "_GUARDRAILS", known)
    plain = start.guardrail_help()
    guardrails.guardrail("no_prices")(lambda _: None)

    assert plain.endswith(f"Run by default: {', '.join(guardrails.default_guardrails())}.")
    assert start.guardrail_help() == f"{plain} Only when named: no_prices."


@pytest.mark.parametrize(
    ("arguments", "notes"),
    [
        (["ask", "q", "--rule", "fixed", "--epsilon", "0.1"],
         ["--epsilon has no effect with --rule fixed"]),
        (["ask", "q", "--rule", "predictive", "--confidence-threshold", "0.8", "--futility", "0"],
         []),
        (["ask", "q", "--preset", "thrifty", "--confidence-threshold", "0.9"],
         ["--confidence-threshold has no effect with --rule predictive"]),
        (["ask", "q", "--rule", "beta", "--confidence-threshold", "0.9", "--futility", "0.1"], []),
        (["ask", "q", "--entropy-weight", "0.1", "--min-entropy-samples", "3"], []),
        (["ask", "q", "--review-timeout", "9"],
         ["--review-timeout has no effect without --review-when"]),
        (["reflect", "q", "--review-timeout", "9", "--review-below", "0.5"], []),
        (["agent", "p", "--mode", "code", "--no-creative", "--passages", "3"],
         ["--passages has no effect without --docs", "--creative has no effect with --mode code"]),
        (["agent", "p", "--docs", "/nowhere"],
         ["there is no folder /nowhere on this machine; the worker looks on its own"]),
    ],
)  # fmt: skip
def test_an_option_without_effect_is_named(
    typed: Type, arguments: list[str], notes: list[str]
) -> None:
    """The run starts all the same."""
    ended = typed(*arguments)

    assert (ended.code, ended.request is None) == (0, False)
    assert ended.err.splitlines() == [f"Note: {note}." for note in notes]


def test_choices_are_completed() -> None:
    """A shell offers the values of an option that has a list of them."""
    known = {"_MULL_COMPLETE": "complete_bash", "COMP_WORDS": "mull ask x --rule "}
    done = subprocess.run(
        [sys.executable, "starter.py"],
        env={**os.environ, **known, "COMP_CWORD": "4"}, capture_output=True, check=True,
    )  # fmt: skip

    assert done.stdout.decode().split()[:2] == ["combined", "confidence_only"]


FRAMED = [
    (["q", "--system", "/nowhere"], "--system: /nowhere can't be read: "),
    (["q", "--system", os.devnull], "--system: should have at least 1 character"),
    (["q", "--context", os.devnull], "--context: should have at least 1 character"),
    (["q", "--messages", os.devnull], "/null: not valid JSON (line 1, column 1); expected [{"),
    (["q", "--messages", "examples/request.json"], "request.json: should be a valid"),
    (["q", "--set", "top_p"], "--set: expected NAME=VALUE, such as top_p=0.9"),
    (["q", "--set", "top_p=2"], "--set: top_p: should be less than"),
    (["q", "--set", "top_k=many"], "--set: top_k: should be a whole number"),
    (["q", "--set", "api_key=x"], "--set: there is no api_key; the options are top_p, "),
]
MISTAKES = {
    "review": [
        (["r", "--accept", "--score", "0.8"], "give one of accept, revise, replace and score"),
        (["r", "--score", "1.5"], "--score: should be less than"),
        (["r", "--revise", "  "], "white space alone"),
        (["r", "--replace", "/nowhere"], "--replace: /nowhere can't be read: "),
        (["r", "--replace", os.devnull], "--replace: should have at least 1 character"),
        (["r", "--author", "ann"], "--author needs --accept"),
        (["r", "--draft", "2"], "--draft needs --accept"),
    ],
    "ask": [
        ([""], "question: "),
        (["-", "--preset", "luck"], "--preset: should be 'thrifty' or 'thorough'."),
        (["-", "--rule", "luck"], "Invalid value for '--rule': 'luck' is not one of 'combined', "),
        (["q", "--min-responses", "6", "--max-responses", "5"], "min_responses (6)"),
        (["q", "--confidence-threshold", "1.5"], "--confidence-threshold: "),
        (["q", "--budget-usd", "nan"], "--budget-usd: "),
        (["q", "--prompt-template", "/nowhere"], "can't be read"),
        (["a" * 5_000_000], "question: 5,000,000 bytes exceed the limit of 100,000."),
        *FRAMED,
    ],
    "reflect": [
        ([""], "query: "),
        (["q", "--draft", "/nowhere"], "--draft: /nowhere can't be read: "),
        (["q", "--draft", os.devnull], "--draft: must not be empty"),
        (["q", "--source", "/nowhere"], "--source: /nowhere can't be read: "),
        (["-", "--draft", "-"], "QUERY and --draft can't both read standard input"),
        (["q", "--criteria", "luck"], "--criteria: unknown preset; choose one of general, cost_"),
        (["q", "--criteria", "code", "--criterion", "tone=x"],
         "--criteria and --criterion can't be combined"),
        (["q", "--criterion", "tone"], "--criterion: expected NAME[*WEIGHT]=MEANING"),
        (["q", "--criterion", "tone="], "--criterion: expected NAME[*WEIGHT]=MEANING"),
        (["q", "--criterion", "tone*much=x"], "--criterion: weight: should be a valid number"),
        (["q", "--criterion", "tone*nan=x"], "--criterion: weight: "),
        (["q", "--criterion", "tone*0=x"], "--criterion: weight: "),
        (["q", "--criterion", "Tone of voice=x"], "--criterion: name: "),
        (["q", "--criterion", "a=b", "--criterion", "a=c"], "two criteria have the same name"),
        (["q", "--judge", "a", "--judge", "a"], "two judges are the same model"),
        (["q", "--format", "yaml"], "Invalid value for '--format': 'yaml' is not one of 'json'"),
        (["q", "--guardrail", "luck"], "--guardrail: unknown guardrail luck; expected any of "),
        (["q", "--score-threshold", "1.5"], "--score-threshold: "),
        (["q", "--max-revisions", "11"], "--max-revisions: "),
        (["q", "--review-timeout", "0"], "--review-timeout: "),
        *FRAMED,
    ],
    "agent": [
        ([""], "prompt: "),
        ([], "Missing argument 'prompt'. See `mull agent --help`."),
        (["p", "--nothing"], "No such option: --nothing"),
        (["p", "--seed", "x"], "Invalid value for '--seed'"),
        (["p", "--seed", "-1", "--passages", "0"], "--seed: should be greater"),
        (["p", "--docs"], "Option '--docs' requires an argument"),
        (["p", "--docs", ""], "--docs: "),
        (["p", "--model", ""], "--model: "),
        (["p", "--mode", "guess"], "Invalid value for '--mode': 'guess' is not one of 'research'"),
        (["p", "--tests", "/nowhere"], "--tests: /nowhere can't be read: "),
        (["p", "--tests", os.devnull], "--tests: text: "),
        (["p", "--entry", "a b"], "--entry: "),
        (["p", "--packages", "a;b"], "--packages: should match"),
        (["p", "--passages", "21"], "--passages: "),
        (["p", "--memory-mb", "1"], "--memory-mb: should be greater"),
        (["p", "--call-timeout", "0"], "--call-timeout: should be greater"),
        (["p", "--entry", "add", "--mode", "research"], "--entry is only for code, and can't"),
        (["p", "--out", "x.py", "--detach"], "--out and --detach can't be combined"),
        (["p", "--out", "."], "--out: . is a folder"),
        (["p", "--out", "nowhere/x.py"], "--out: there is no folder "),
    ],
    "turn": [
        (["m", "--think-level", "lots"],
         "Invalid value for '--think-level': 'lots' is not one of 'off', 'low', 'medium', 'high'."),
        (["m", "--session", "s", "--again"], "--session and --again can't be combined"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [(command, *row) for command, rows in MISTAKES.items() for row in rows],
    ids=[f"{command} {row[1]}" for command, rows in MISTAKES.items() for row in rows],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    typed: Type, monkeypatch: Patch, command: str, arguments: list[str], said: str
) -> None:
    """It names the option, not the request's field, and no run is started."""
    monkeypatch.setattr("commands.command.read_stdin", lambda _: "q")

    ended = typed(command, *arguments)

    assert (int(ended.code), ended.request, ended.out) == (2, None, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test_add():\n    assert add(1, 2 == 3\n", "line 2)."),
        ("x = 1\n\x00", "null bytes."),
        ("import re\nassert re.match('\\d', '1')\n", None),
    ],
    ids=["syntax", "null byte", "what Python would warn of"],
)
def test_tests_are_python(typed: Type, tmp_path: Path, text: str, said: str | None) -> None:
    """Others would fail every draft, and each draft is paid for."""
    path = tmp_path / "test_add.py"
    path.write_text(text)

    ended = typed("agent", "p", "--tests", str(path))

    wrong = f"Error: --tests: {path} is not Python: "
    assert (ended.code, ended.request is None) == ((0, False) if said is None else (2, True))
    assert said is None or (wrong in ended.err and said in ended.err)


def test_hints_break_between_words(monkeypatch: Patch, capsys: Capture) -> None:
    """In a narrow terminal no id is broken, and a command to copy stays whole."""
    run = "ask-what-is-the-sum-of-7f3a91c2"
    said = f"the run has not ended. Follow it with `mull watch {run}`.\n    mull show {run} > {run}"
    monkeypatch.setenv("COLUMNS", "40")

    command.tell(said)
    piped = capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    command.tell(said)

    assert piped == f"{said}\n"
    assert capsys.readouterr().err.splitlines() == [
        "the run has not ended. Follow it with", "`mull watch", f"{run}`.",
        f"    mull show {run} > {run}",
    ]  # fmt: skip


def test_empty_variables_are_unset_ones(monkeypatch: Patch) -> None:
    """The SDK takes an empty namespace or key for a value; what is lost bars nothing."""
    monkeypatch.setenv("TEMPORAL_API_KEY", "key")
    for variable in ("TEMPORAL_NAMESPACE", "MULL_ENCRYPTION_KEYS", "MULL_MODELS"):
        monkeypatch.setenv(variable, "")

    command.drop_empty_variables()

    assert os.environ["TEMPORAL_API_KEY"] == "key"
    assert "TEMPORAL_NAMESPACE" not in os.environ
    assert os.environ["MULL_ENCRYPTION_KEYS"] == os.environ["MULL_MODELS"] == ""


def test_secrets_are_read_from_files(tmp_path: Path, monkeypatch: Patch) -> None:
    """Each file of a variable's name is one, unless the environment has it; no other file is."""
    for name, text in {
        "OPENAI_API_KEY": "sk-1\n",
        "MULL_ENCRYPTION_KEYS": "main-1:a\nmain-2:b\n",
        "MULL_WEBHOOK": "\n",
        "TEMPORAL_API_KEY": "of the file",
        "client.pem": "-----",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "..data").mkdir()
    given = {name: value for name, value in os.environ.items() if value}
    given.pop("OPENAI_API_KEY", None)
    before = {**given, "MULL_SECRETS": str(tmp_path), "TEMPORAL_API_KEY": "stated"}
    monkeypatch.setattr(os, "environ", dict(before))

    command.read_secrets()

    added = {"OPENAI_API_KEY": "sk-1", "MULL_ENCRYPTION_KEYS": "main-1:a\nmain-2:b"}
    assert os.environ == before | added


@pytest.mark.parametrize("worker", [False, True], ids=["mull", "mull-worker"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.exists, "No such file or directory"),
        (lambda path: path.write_text(""), "Not a directory"),
        (lambda path: (path / "OPENAI_API_KEY").mkdir(parents=True), "Is a directory"),
        (lambda path: (path.mkdir(), (path / "A_KEY").write_bytes(b"\xff")), "not UTF-8 text"),
    ],
)
def test_secrets_that_can_t_be_read_are_one_line(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture, make: Any, said: str, worker: bool
) -> None:
    """Nobody starts without the keys that it was to have: it is wrong usage."""
    make(tmp_path / "secrets")
    monkeypatch.setenv("MULL_SECRETS", str(tmp_path / "secrets"))
    monkeypatch.setattr(sys, "argv", ["mull", "list"])

    with pytest.raises(SystemExit) as ended:
        worker_main(["--queues", "mull"]) if worker else starter.main()

    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"Error: MULL_SECRETS: {tmp_path}/secrets")
    assert told.endswith(f"{said}.\n")
    assert ("A_KEY" in told) == ("UTF-8" in said)


def test_a_secret_that_has_the_folder_s_name_is_no_folder(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    """Docker mounts a secret named `mull` as a file there."""
    (tmp_path / "mull").write_text("key")
    monkeypatch.delenv("MULL_SECRETS", raising=False)
    monkeypatch.setattr(command, "MOUNTED", str(tmp_path / "mull"))

    command.read_secrets()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("review x --deny 1", "Option '--deny' requires 2 arguments: --deny CALL \"WHY\"."),
        ("review x --draft", "Option '--draft' requires an argument: --draft N."),
        ("report x --html", "Option '--html' requires an argument: --html FILE."),
        ("ask q --model", "Option '--model' requires an argument: --model MODEL."),
        ("ask q --json=3", "Option '--json' does not take a value."),
        ("review x --draft a", "valid integer, unable to parse string as an integer."),
    ],
)
def test_an_option_without_its_arguments_is_shown_as_it_is_used(given: str, said: str) -> None:
    """And the help that is named is that of its command."""
    ended = subprocess.run(
        [sys.executable, "starter.py", *given.split()],
        cwd=Path(starter.__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.endswith(f"{said} See `mull {given.partition(' ')[0]} --help`.\n")


def test_a_suggestion_is_a_question(monkeypatch: Patch, capsys: Capture) -> None:
    """It ends with its own mark alone."""
    monkeypatch.setattr(sys, "argv", ["mull", "aks"])

    assert starter.main() == 2
    assert "Did you mean 'ask'? See `mull --help`." in capsys.readouterr().err


class Sent:
    """A run that notes what it is sent; of what comes while its history `ends`, one is lost."""

    id = "ask-kafka"

    def __init__(self, *, ends: bool = False) -> None:
        self.taken, self.ends = list[Any](), ends

    async def execute_update(self, name: str, given: Any) -> int:
        """Take an update."""
        if self.ends:
            self.ends = False
            raise RPCError("its task failed", RPCStatusCode.FAILED_PRECONDITION, b"")
        self.taken.append((name, given))
        return 1


@pytest.fixture
def served(monkeypatch: Patch) -> None:
    """Have a worker on every queue."""

    async def unserved(*_: object) -> list[str]:
        """Find a worker on every queue."""
        return []

    monkeypatch.setattr(handle, "unserved", unserved)


@pytest.mark.usefixtures("served")
async def test_what_nobody_looked_at_is_sent_again() -> None:
    """What comes within a task that fails, as where a history ends, is not the user's affair."""
    sent: Any = Sent(ends=True)

    assert await Run[Any](sent, SAMPLING, sent).update("finish_now", {}) == 1
    assert sent.taken == [("finish_now", {})]


@pytest.mark.usefixtures("served")
async def test_what_is_too_large_for_one_message_is_not_sent() -> None:
    """Several such at once would end the run: the error says how large it is, and the limit."""
    sent: Any = Sent()
    run = Run[Any](sent, CRITIQUE, sent)
    fits, exceeds = (Review(replace=letter * 100_000) for letter in ("x", "\U0001f30a"))
    await run.update("review", fits)
    with pytest.raises(RequestError) as caught:
        await run.update("review", exceeds)
    page = BatchPage.model_construct(number=0, items=({"question": "x" * 400_000},))
    with pytest.raises(RequestError):
        await pages.send_page(sent, page)

    assert sent.taken == [("review", fits)]
    assert caught.value.exit_code == command.Exit.USAGE
    assert str(caught.value) == "this is 400,014 bytes; a run takes at most 400,000 at once"
