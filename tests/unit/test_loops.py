"""What the command line knows of each workflow type, and what it prints of a run that ended."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console
from temporalio.api.workflow.v1 import PendingActivityInfo

from commands import follow, terminal
from commands.options import Wanted
from commands.terminal import print_sheet
from mull.batch.result import BatchResult
from mull.critique.evaluation import Confidence
from mull.critique.request import ReflectOnResultRequest
from mull.drafts import PlainDraft, PlainResult
from mull.errors import RunFailedError
from mull.handle import Run
from mull.loops import BATCH, CRITIQUE, LOOPS, MULTIPATH, SAMPLING, Loop, loop_of
from mull.multipath.loop import Run as AgentRun
from mull.multipath.request import MultiPathRequest
from mull.run import Usage
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import Bars
from mull.turn.request import ToolTurnRequest
from mull.turn.session import SessionRequest
from tests.unit.critique.reflected import capped, judged, reflected
from tests.unit.multipath.agent_runs import UNCLEAR, coded, researched, routed, standing, verdict
from tests.unit.runs import failed, finished, sampled
from tests.unit.sheets import console, written


def run_of(loop: Loop) -> Run[Any]:
    """Return a run of which only the id is known, which is all that printing a result needs."""
    nobody: Any = None
    return Run(nobody, loop, SimpleNamespace(id="agent-kafka"))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_web_ui(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Web UI is looked for."""
    monkeypatch.setattr(follow, "run_page", lambda *_: None)


def shown(loop: Loop, ended: Any, **options: Any) -> int:
    wanted = Wanted(**options)
    return follow.show_result(run_of(loop), loop.sheet(ended), ended, None, wanted)


def test_each_type_has_its_own_names() -> None:
    """No two types share a workflow's name or the beginning of an id; a batch has no answer."""
    answering = [loop for loop in LOOPS if loop.answers]

    assert loop_of(MultiPathRequest(prompt="p")) is MULTIPATH
    assert len({loop.workflow for loop in LOOPS}) == len(LOOPS)
    assert len({loop.command for loop in answering}) == len(answering)
    assert BATCH not in answering


UNDECIDED = sampled(["A", "B"] * 5).result().model_copy(update={"stop_reason": "no_consensus"})
DRAFTED = reflected([0.8]).result()


ACCEPTED = {"stop_reason": "accepted_by_person"}
UNJUDGED = DRAFTED.model_copy(update={"score": None, "stop_reason": "evaluation_failed"})
CUT_OFF, UNSURE = (
    "the draft was cut off by its provider: raise max_output_tokens",
    "no judge was sure of its score",
)
FAILS = coded([verdict(True, False)], max_revisions=1).result()


def drafted(*sure: Confidence | None, author: str | None = None, **known: Any) -> Any:
    """Return a result whose only draft was judged with these confidences, and has these fields."""
    made = judged(0.8).judgements[0]
    panel = tuple(made.model_copy(update={"confidence": one}) for one in sure)
    lost = made.model_copy(update={"score": None, "confidence": None, "error": "no reply"})
    evaluation = judged(0.8).model_copy(update={"judgements": (*panel, lost), "author": author})
    ended = reflected([evaluation]).result()
    ended = ended.model_copy(update={"stop_reason": known.pop("stop_reason", "passed")})
    return ended.model_copy(update={"drafts": (ended.drafts[0].model_copy(update=known),)})


PLAIN = Loop(workflow="HaikuWorkflow", request=MultiPathRequest)


def plain(finish_reason: str) -> PlainResult:
    """Return the result of a loop that has no records of its own."""
    draft = PlainDraft(index=0, text="a", origin="generated", finish_reason=finish_reason)
    known: dict[str, Any] = {"stop_reason": "passed", "stop_explanation": "", "decisions": ()}
    known |= {"drafts": (draft,), "best": 0, "answer": "a", "usage": Usage()}
    return PlainResult(subject="s", model=None, **known)


def cut(run: AgentRun) -> Any:
    """Return the result of a run whose newest draft was cut off."""
    run.drafts[-1] = run.drafts[-1].model_copy(update={"cut": True})
    return run.result()


def voted_on(answers: list[str | None], **settings: Any) -> Any:
    return finished(answers, **settings).result()


DEAR = {"stop_reason": "budget", "stop_explanation": "it was too dear"}
LATE = {"stop_reason": "deadline", "stop_explanation": "time is up"}
SO_DEAR = "readable answers (it was too dear)"


@pytest.mark.parametrize(
    ("loop", "ended", "doubt"),
    [
        (SAMPLING, UNDECIDED, "there is no consensus"),
        (SAMPLING, UNDECIDED.model_copy(update=ACCEPTED), ""),
        (SAMPLING, voted_on(["A", "B"] * 5), "several answers share the lead"),
        (SAMPLING, voted_on([*"AAABBCDEFG"]), "the votes are divided"),
        (SAMPLING, voted_on([*"AAAABBCDEF"]), ""),
        (SAMPLING, voted_on(["A"]).model_copy(update=DEAR), f"only 1 of at least 5 {SO_DEAR}"),
        (SAMPLING, voted_on(["A"] * 3), "only 3 of at least 5 readable answers"),
        (SAMPLING, voted_on(["A", "A"], rule="predictive", epsilon=0), "only 2 votes"),
        (SAMPLING, voted_on(["A", None], rule="fixed", max_responses=2), "only 1 vote"),
        (SAMPLING, voted_on(["A"], rule="fixed", max_responses=1), ""),
        (SAMPLING, voted_on(["A", "A"], rule="curtail", max_responses=3), ""),
        (SAMPLING, voted_on(["A"] * 5), ""),
        (CRITIQUE, DRAFTED, ""),
        (CRITIQUE, UNJUDGED, "no judge has scored the draft"),
        (CRITIQUE, UNJUDGED.model_copy(update=ACCEPTED), ""),
        (CRITIQUE, UNJUDGED.model_copy(update=LATE), "no judge has scored the draft (time is up)"),
        (CRITIQUE, UNJUDGED.model_copy(update={"stop_reason": "skipped"}), ""),
        (CRITIQUE, drafted(finish_reason="length"), CUT_OFF),
        (CRITIQUE, drafted(finish_reason="length").model_copy(update=ACCEPTED), ""),
        (CRITIQUE, drafted(finish_reason="length", stop_reason="disabled"), CUT_OFF),
        (CRITIQUE, drafted("low"), UNSURE),
        (CRITIQUE, drafted("low", "low"), UNSURE),
        (CRITIQUE, drafted("low", "medium"), ""),
        (CRITIQUE, drafted("low", None), ""),
        (CRITIQUE, drafted("low").model_copy(update=ACCEPTED), ""),
        (CRITIQUE, drafted("low", author="ann"), ""),
        (CRITIQUE, reflected([capped(0.9)], score_threshold=0.4).result(), ""),
        (PLAIN, plain("length"), CUT_OFF),
        (PLAIN, plain("stop"), ""),
        (PLAIN, plain("length").model_copy(update=ACCEPTED), ""),
        (MULTIPATH, cut(researched([[]])), "the report was cut off"),
        (MULTIPATH, cut(researched([[]])).model_copy(update=ACCEPTED), ""),
        (MULTIPATH, cut(coded([verdict(True, True, True)])), ""),
        (MULTIPATH, researched([[UNCLEAR]] * 3).result(), "1 critique remains"),
        (
            MULTIPATH,
            FAILS.model_copy(update=LATE),
            "a test still fails: it returned 99, not 0 (time is up)",
        ),
        (MULTIPATH, FAILS, "a test still fails: it returned 99, not 0"),
        (MULTIPATH, FAILS.model_copy(update=ACCEPTED), ""),
        (MULTIPATH, researched([[]]).result(), ""),
    ],
)
def test_what_is_doubtful_is_exit_code_4(
    loop: Loop, ended: Any, doubt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said why; --accept-any makes it 0, and never a bar that was asked for."""
    code, said = shown(loop, ended), capsys.readouterr().err

    assert (ended.doubt, code) == (doubt, 4 if doubt else 0)
    assert (f"Not to be built on: {doubt}. With --accept-any" in said) == bool(doubt)
    assert not doubt or loop.sheet(ended).verdict.tone in {"warning", "bad"}
    assert shown(loop, ended, accept_any=True) == 0
    bar = Bars(1.0) if loop is SAMPLING else 1.0
    if loop.below(ended, bar):
        assert shown(loop, ended, accept_any=True, required=bar) == 4


@pytest.mark.parametrize(
    ("loop", "ended"),
    [
        (SAMPLING, voted_on([None] * 10)),
        (CRITIQUE, DRAFTED.model_copy(update={"draft": None, "drafts": (), "best": None})),
        (MULTIPATH, routed(None).result()),
    ],
)
def test_no_answer_at_all_is_exit_code_4(
    loop: Loop, ended: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is nothing that --accept-any could accept, so it is not named."""
    assert (shown(loop, ended), shown(loop, ended, accept_any=True)) == (4, 4)
    said = capsys.readouterr().err
    assert (said.count("Not to be built on: there is no "), said.count("any")) == (2, 0)


@pytest.mark.parametrize("required", [None, 0.9])
def test_the_json_has_the_id_and_the_doubt(
    required: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both first, beside the record; a bar that is missed is a doubt, and null says none."""
    assert shown(CRITIQUE, DRAFTED, as_json=True, required=required) == (4 if required else 0)

    document = json.loads(capsys.readouterr().out)
    missed = "score 0.80 is below 0.9"
    assert list(document.items())[:2] == [("id", "agent-kafka"), ("doubt", required and missed)]
    assert type(DRAFTED).model_validate(document) == DRAFTED


def test_a_batch_tells_how_many_runs_have_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    """So that a script which reads the batch alone learns of it."""
    known: dict[str, Any] = {"failed": 1, "cancelled": 0, "not_started": 0, "tokens": 1}
    whole = BatchResult(total=3, completed=3, cost_usd=None, stop_reason="completed", **known)
    short = whole.model_copy(update={"completed": 2})

    assert (shown(BATCH, whole), shown(BATCH, short)) == (0, 4)
    assert "Not to be built on: 1 of 3 runs without a result." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("loop", "ended", "bar", "said"),
    [
        (CRITIQUE, DRAFTED, 0.8, None),
        (CRITIQUE, DRAFTED.model_copy(update={"score": 0.79}), 0.8, "score 0.79 is below 0.8"),
        (CRITIQUE, DRAFTED.model_copy(update={"score": None}), 0.0,
         "no score shows that the draft reaches 0"),
        (SAMPLING, UNDECIDED, Bars(0.5), None),
        (SAMPLING, UNDECIDED, Bars(0.6), "agreement 0.50 is below 0.6"),
        (SAMPLING, UNDECIDED.model_copy(update={"valid_responses": 1}), Bars(0.5),
         "a run that was cut short can't show an agreement of 0.5"),
        (MULTIPATH, researched([[]]).result(), 1.0, None),
        (MULTIPATH, researched([[UNCLEAR]], max_revisions=1).result(), 1.0,
         "the result is not closed (1 critique remains)"),
        (MULTIPATH, coded([verdict(True, False)], max_revisions=1).result(), 1.0,
         "the result is not closed (a test still fails: it returned 99, not 0)"),
    ],
)  # fmt: skip
def test_a_bar_is_held_against_the_result(
    loop: Loop, ended: Any, bar: Any, said: str | None
) -> None:
    """A score or confidence at the bar meets it; whatever is open misses it."""
    assert loop.below(ended, bar) == said


@pytest.mark.parametrize(
    ("mode", "needed", "optional"),
    [("research", (), ()), ("code", ("mull-code",), ()), (None, (), ("mull-code",))],
)
def test_code_has_a_queue_of_its_own(
    mode: Any, needed: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    """A run that may turn out to be code is not refused where nobody could test it."""
    request = MultiPathRequest(prompt="p", mode=mode)

    assert MULTIPATH.queues(request) == ("mull", "mull-llm", *needed)
    assert MULTIPATH.optional_queues(request) == optional


def test_the_output_alone_is_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code in a pipe is what the result holds, all else is on standard error; a file takes it."""
    ended, file = coded([verdict(True, True, True)]).result(), tmp_path / "add.py"

    shown(MULTIPATH, ended)
    piped = capsys.readouterr()
    shown(MULTIPATH, ended, out=file)
    kept = capsys.readouterr()
    shown(MULTIPATH, routed(None).result(), out=file)

    assert piped.out == file.read_text() == "def add(a, b):\n    return a + b  # 1\n"
    assert "every test passes (passed)" in piped.err
    assert kept.out == ""
    assert f"wrote the code to {file}\n" in kept.err
    assert "was not written: there is no output" in capsys.readouterr().err


def test_a_file_that_can_t_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result is not lost: the line says how to print it."""
    with pytest.raises(typer.Exit) as caught:
        shown(MULTIPATH, coded([verdict(True)]).result(), out=tmp_path / "gone" / "add.py")

    said = "can't be written: No such file or directory. `mull show agent-kafka` prints"
    assert caught.value.exit_code == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("RetrievalError", "`mull doctor` shows the folders that may be searched.\n"),
        ("AuthenticationError", "`mull doctor` shows the keys that are set.\n"),
        ("RateLimitError", ""),
    ],
)
async def test_a_failed_run_says_what_to_do(
    kind: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong on the worker's machine is found there."""
    error = RunFailedError("agent-kafka", kind, "no")

    code = await follow.ended_badly(error, run_of(SAMPLING), as_json=False)

    said = capsys.readouterr().err
    assert code == 1
    assert said.startswith(f"Error: the run failed. {kind}: no\n{hint}")
    assert said.count("\n") == 1 + bool(hint)


def test_an_answer_and_what_it_rests_on_are_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The source's sentence comes first."""
    shown(SAMPLING, sampled(["A"] * 5).result())

    said = capsys.readouterr()
    assert said.out.startswith("Final Answer: A (Confidence: 1.00, Uncertainty: low)\n\nstopped")
    assert said.err == ""


TIED = """\
Final Answer: A (Confidence: 0.50, Uncertainty: high)
attention  tied: several answers share the lead, and the one seen first was taken (and 1 more: \
mull show agent-kafka)
spent      2 calls, 200 tokens in and 80 out, cost $0.00040
"""
AGREED = """\
Final Answer: A (Confidence: 1.00, Uncertainty: low)
agreement  1.00  uncertainty low; a share, not a probability
spent      5 calls, 500 tokens in and 200 out, cost $0.0010
"""
ONE_FAILED = """\
Final Answer: A (Confidence: 1.00, Uncertainty: low)
agreement  1.00  uncertainty low; a share, not a probability
attention  error Timeout: no: 1 x
spent      9 calls, 900 tokens in and 360 out, cost $0.0018, and 3 calls without a reply, whose \
charge is not known
"""


@pytest.mark.parametrize(
    ("answers", "printed"),
    [(["A", "B"], TIED), (["A"] * 5, AGREED), ([*["A"] * 9, failed(9, "Timeout: no")], ONE_FAILED)],
)
def test_an_answer_is_printed_in_five_lines(
    answers: list[Any], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """How sure it is, what to warn of, and what was spent; a doubt says how sure it is."""
    settings = {"rule": "fixed", "max_responses": len(answers)}
    shown(SAMPLING, finished(answers, **settings).result(), details=False)

    said = capsys.readouterr()
    assert said.out == printed
    assert len((said.out + said.err).splitlines()) <= 4


def test_a_run_without_a_result_has_no_call_in_flight() -> None:
    """Its prompt, decisions, sources and spending are told all the same."""
    run, on = researched([[UNCLEAR]]), console(120)

    sheet = MULTIPATH.stood_at(standing(run))
    print_sheet(on, sheet, subject=True, decisions=True, label="stood at")

    assert "in flight" not in written(on)
    for part in ("Compare Kafka and Pulsar", "kafka.md:3-9", "reflect_on_report", "spent"):
        assert part in written(on)


@pytest.mark.parametrize(
    ("loop", "seen", "fields"),
    [
        (SAMPLING, sampled(["A"]).record(),
         "question final_answer consensus_confidence normalized_entropy answer_distribution"),
        (CRITIQUE, reflected([0.5]).record(step="waiting_for_review"),
         "query score_threshold draft"),
        (MULTIPATH, standing(researched([[UNCLEAR]])),
         "prompt mode sources suite quarantined draft"),
    ],
)  # fmt: skip
def test_a_machine_is_told_what_to_review(loop: Loop, seen: Any, fields: str) -> None:
    """The document has what a person would see."""
    assert set(loop.under_review(seen)) == set(fields.split())


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ([2_500, 10_000], "Reading documents ▇▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁ 2,500 of 10,000 files"),
        ([], None),
        ([3], None),
        ([0, 0], None),
        (["a", "b"], None),
    ],
)
def test_the_reading_of_documents_has_a_bar(details: list[object], said: str | None) -> None:
    """Two counts of a heartbeat make one; anything else is not shown."""
    assert terminal.reading_words(details) == said


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def pending(attempt: int, seconds: int, kind: str = "", *, runs: bool = True) -> Any:
    """Return a call under way as the server describes it."""
    call = PendingActivityInfo(attempt=attempt, state=2 if runs else 1)  # type: ignore[arg-type]
    since = call.last_started_time if runs else call.scheduled_time
    since.FromDatetime(NOW - timedelta(seconds=seconds))
    if kind:
        call.last_failure.message = "slow\x1b down"
        call.last_failure.application_failure_info.type = kind
    return call


def of_a_stage(call: Any) -> Any:
    call.activity_type.name = "train_stage"
    return call


def timed_out(call: Any) -> Any:
    call.last_failure.message = "activity StartToClose timeout"
    call.last_failure.timeout_failure_info.timeout_type = 1
    return call


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([], None),
        ([pending(1, 9)], None),
        ([pending(1, 3), pending(1, 75)], "a call has taken 1 min 15 s"),
        ([pending(1, 12, runs=False)], "a call waits for a worker"),
        ([of_a_stage(pending(1, 122))], "a stage has taken 2 min 2 s"),
        ([pending(1, 90), pending(3, 2, "RateLimitError")],
         "a call is in attempt 3, last error RateLimitError: slow␛ down"),
        ([timed_out(pending(2, 0))], "a call is in attempt 2, after a time-out"),
        ([timed_out(pending(3, 0, runs=False))], "a call waits for attempt 3, after a time-out"),
        ([pending(2, -5, "Timeout", runs=False)],
         "a call waits for attempt 2, last error Timeout: slow␛ down"),
    ],
)  # fmt: skip
def test_a_slow_call_is_told(calls: list[Any], said: str | None) -> None:
    """Its attempt, how long it has taken, and its last error; not of a call that is new."""
    assert terminal.slow_words(calls, NOW) == said


async def test_silence_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe something is printed every 10 s, with what the slowest call waits for."""
    slow: list[str | None] = [None, "a call waits for attempt 2"]
    clock = iter([0, 5, 10, 15, 20, 25])

    async def slowest(_: Any) -> str | None:
        return slow.pop(0)

    monkeypatch.setattr(follow, "slow", slowest)
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    live = follow.Live(run_of(SAMPLING), None, Console(stderr=True), None)
    live.busy = "wave 1 is running"

    for spoke in (False, False, False, False, True):
        await live.beat(spoke=spoke)

    said = capsys.readouterr().err.splitlines()
    assert said[0] == "10 s: wave 1 is running"
    assert said[1:] == ["20 s: a call waits for attempt 2; wave 1 is running"]


async def test_the_end_of_what_is_written_stands_in_a_terminal() -> None:
    """Its last lines, as many as there is room for, and nothing that acts on the terminal."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=20, height=8)
    lines = [f"line {number} \x1b[2J" for number in range(30)]

    with console.status("asking") as status:
        live = follow.Live(run_of(SAMPLING), None, console, status)
        live.busy, live.written = "step 1", "\n".join(lines)
        await live.beat(spoke=True)
        console.print(status.renderable)

    shown = screen.getvalue()
    assert [number for number in range(30) if f"line {number} ␛[2J" in shown] == [26, 27, 28, 29]
    assert "\x1b[2J" not in shown
    assert "0 s: step 1" in shown


@pytest.mark.parametrize(
    ("request_", "seconds"),
    [
        (SelfConsistencyRequest(question="Is 91 prime?"), 5),
        (SelfConsistencyRequest(question="x" * 60_000, max_responses=100), None),
        (SelfConsistencyRequest(question="Why?", answers="llm"), None),
        (ReflectOnResultRequest(query="A note"), 5),
        (ReflectOnResultRequest(query="A note", judges=tuple("abcde"), max_revisions=10), None),
        (MultiPathRequest(prompt="A note"), 5),
        (ToolTurnRequest(message="Hello"), 5),
        (ToolTurnRequest(message="Hello", max_steps=30), None),
        (ToolTurnRequest(message="Hello", max_tool_calls=100), None),
        (SessionRequest(), None),
    ],
)
def test_a_lost_task_is_given_up_sooner_where_histories_stay_small(
    request_: Any, seconds: float | None
) -> None:
    """Elsewhere another worker has Temporal's 10 s to replay a history."""
    found = request_.task_timeout()

    assert (found and found.total_seconds()) == seconds


@pytest.mark.parametrize(("kept", "shown"), [(99, 99), (100, 125)])
async def test_a_live_view_has_decisions_that_the_record_left_out(kept: int, shown: int) -> None:
    """A record is cut to an event; where it may have lost decisions, they are asked for."""
    whole = finished(["129"] * 5).result()
    one, asked = whole.decisions[0], list[str]()
    answers = {
        "progress": whole.model_copy(update={"decisions": (one,) * kept}),
        "decisions": (one,) * 125,
    }

    async def query(name: str, **_: Any) -> Any:
        asked.append(name)
        return answers[name]

    handle: Any = SimpleNamespace(query=query, id="ask-1")
    seen: Any = await Run[Any](handle, SAMPLING, handle).glance()

    assert len(seen.decisions) == shown
    assert asked == ["progress", "decisions"][: 1 + (kept == 100)]
