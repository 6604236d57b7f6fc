"""`turn` by the command line: its options, its exit codes, people, and a conversation."""

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Cli, until_waiting
from tests.e2e.model import AGREE, CALCULATES, EXPRESSIONS

SUMS = ("turn", "What are the sums?", "--seed", str(CALCULATES))
ASKS = [{"tool": "calculate", "action": "ask"}]


def rules(path: Path, content: object) -> tuple[str, str]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return "--approve", str(path)


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> str:
    """A turn whose two calls wait for a person, by the rules of its request."""
    started = cli(*SUMS, *rules(tmp_path / "rules.json", ASKS), "--detach")
    assert started.returncode == 0, started.stderr
    until_waiting(cli, started.stdout.strip())
    return started.stdout.strip()


def test_what_waits_is_shown_whole(cli: Cli, run: str) -> None:
    """Both calls with all of their arguments, how long they wait, and the commands to type."""
    shown, document = cli("review", run), json.loads(cli("review", run, "--json").stdout)
    cli("cancel", run)

    calls = [f"calculate({json.dumps({'expression': each})})" for each in EXPRESSIONS]
    joined = "".join(shown.stdout.split())
    assert shown.returncode == 0
    assert [call.replace(" ", "") in joined for call in calls] == [True, True]
    assert "It waits until " in shown.stderr
    for number, question in enumerate(document["questions"], 1):
        code = f"{number}-{question['digest'][:8]}"
        assert f"    mull review {run} --allow {code}\n" in shown.stderr
        assert f'    mull review {run} --deny {code} "WHY"\n' in shown.stderr
    assert (document["id"], document["actions"]) == (run, ["allow", "deny"])
    assert document["asking"] == [1, 2]
    assert [call["status"] for call in document["calls"]] == ["asking", "asking"]


def test_the_number_of_a_call_is_not_enough_where_another_run_had_the_id(
    cli: Cli, tmp_path: Path
) -> None:
    options = (*SUMS, *rules(tmp_path / "rules.json", ASKS), "--detach", "--id", "turn-again")
    codes = []
    for _ in range(2):
        assert cli(*options).returncode == 0
        until_waiting(cli, "turn-again")
        seen = json.loads(cli("review", "turn-again", "--json").stdout)
        codes.append(f"1-{seen['questions'][0]['digest'][:8]}")
        if len(codes) == 1:
            cli("cancel", "turn-again")
            cli("watch", "turn-again")
    number, first, second = (cli("review", "turn-again", "--allow", call) for call in ("1", *codes))
    cli("cancel", "turn-again")

    assert [done.returncode for done in (number, first, second)] == [2, 2, 0]
    assert "another run had this id. The number alone does not say which call" in number.stderr
    assert "call 1 is not the one that was shown" in first.stderr


def test_a_forced_answer_says_so(cli: Cli) -> None:
    """It is an answer, with exit code 0, and people and scripts are told how it came about."""
    done = cli(*SUMS, "--max-tool-calls", "2")
    document = json.loads(cli(*SUMS, "--max-tool-calls", "2", "--json").stdout)
    free = json.loads(cli(*SUMS, "--json").stdout)

    assert done.returncode == 0, done.stderr
    assert "the answer was forced: no step or tool call was left" in " ".join(done.stderr.split())
    assert (document["forced"], document["stop_reason"]) == (True, "answered")
    assert free["forced"] is False


def test_a_person_allows_one_call_and_denies_the_other(cli: Cli, run: str) -> None:
    wrong = [cli("review", run, *options) for options, _ in REFUSED]
    allowed = cli("review", run, "--allow", "1", "--author", "ann", "--json")
    denied = cli("review", run, "--deny", "2", "too long", "--author", "ben")
    result = json.loads(cli("watch", run, "--json").stdout)
    late = cli("review", run, "--allow", "1")

    for refused, (options, said) in zip(wrong, REFUSED, strict=True):
        assert (refused.returncode, refused.stdout) == (2, ""), options
        assert said in " ".join(refused.stderr.split()), (options, refused.stderr)
    assert json.loads(allowed.stdout) == {"id": run, "done": "call 1 is allowed"}
    assert (denied.returncode, denied.stdout) == (0, "")
    assert re.fullmatch(r"call 2 is denied: calculate\(.*\)\n", denied.stderr)
    assert [call["status"] for call in result["calls"]] == ["ok", "denied"]
    assert [call["approval"]["author"] for call in result["calls"]] == ["ann", "ben"]
    assert "42" in result["answer"]
    assert "by ben: too long" in result["answer"]
    assert late.returncode == 2
    assert "has already ended" in late.stderr


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("--allow", "3"), "refused: call 3 is not waiting for anyone; waiting: 1, 2."),
    (("--deny", "3", "no"), "refused: call 3 is not waiting for anyone; waiting: 1, 2."),
    (("--allow", "0"), "--allow and --deny take a call as `mull review "),
    (("--deny", "0", "no"), "--allow and --deny take a call as `mull review "),
    (("--deny", "1"), "'--deny'"),
    (("--allow", "one"), "--allow and --deny take a call as `mull review "),
    (("--allow", "1-00000000"), "call 1 is not the one that was shown; look at it again"),
    (("--deny", "1-00000000", "no"), "call 1 is not the one that was shown; look at it again"),
    (("--allow", "1", "--deny", "2", "no"), "give one of --allow, --deny"),
    (("--allow", "1", "--accept"), "give one of --allow, --deny"),
    (("--deny", "1", "no", "--accept"), "give one of --allow, --deny"),
    (("--deny", "1", "no", "--score", "0"), "give one of --allow, --deny"),
    (("--accept",), "refused: a turn takes no review"),
]
WRONG: list[tuple[object, str]] = [
    ("[{", "rules.json: not valid JSON (line 1, column 3); expected a list of rules."),
    ([{"tool": "calculate", "action": "perhaps"}], "0.action: should be 'allow', 'ask' or 'deny'"),
    (
        {"tool": "calculate", "action": "deny"},
        "rules.json: should be a valid array; expected a list",
    ),
    ([{"tool": "calculate"}], "0.action: missing"),
]


@pytest.mark.parametrize(("content", "said"), WRONG)
def test_wrong_rules_are_refused(cli: Cli, tmp_path: Path, content: object, said: str) -> None:
    done = cli(*SUMS, *rules(tmp_path / "rules.json", content))
    missing = cli(*SUMS, "--approve", str(tmp_path / "gone.json"))

    assert (done.returncode, missing.returncode) == (2, 2)
    assert "approve" in done.stderr
    assert said in " ".join(done.stderr.split())
    assert "gone.json" in missing.stderr
    assert "Traceback" not in done.stderr + missing.stderr


ENDS: list[tuple[tuple[str, ...], int, dict[str, Any]]] = [
    ((), 0, {"stop_reason": "answered"}),
    (("--max-steps", "1"), 4, {"stop_reason": "max_steps", "answer": None}),
    (("--max-steps", "1", "--accept-any"), 0, {"stop_reason": "max_steps", "answer": None}),
    (("--max-tool-calls", "0"), 4, {"stop_reason": "max_tool_calls"}),
    (("--tools", "calculate, current_time"), 0, {"tools": ["calculate", "current_time"]}),
    (("--tools", "python,calculate"), 0, {"tools": ["calculate", "run_python"]}),
]


@pytest.mark.parametrize(("options", "code", "expected"), ENDS)
def test_how_a_turn_ends(
    cli: Cli, options: tuple[str, ...], code: int, expected: dict[str, Any]
) -> None:
    done = cli(*SUMS, *options, "--json")

    result = json.loads(done.stdout)
    assert done.returncode == code, done.stderr
    assert {name: result[name] for name in expected} == expected


def test_a_turn_without_an_answer_prints_what_it_has(cli: Cli) -> None:
    done = cli(*SUMS, "--max-steps", "1")

    assert done.returncode == 4
    assert "calculate returned:\n42" in done.stdout
    assert "the limit of 1 step is reached" in done.stdout
    assert "no answer" in done.stderr


@pytest.mark.parametrize(("level", "tokens"), [("medium", 2_000), ("off", 0)])
def test_a_level_of_thinking(cli: Cli, level: str, tokens: int) -> None:
    """It is in the result."""
    asked = ("turn", "How much?", "--seed", str(AGREE), "--tools", "", "--think-level", level)
    done = cli(*asked, "--json")

    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert (result["thinking"]["level"], result["thinking"]["tokens"]) == (level, tokens)


def test_a_choice_that_there_is_not_is_refused(cli: Cli) -> None:
    """A command knows the levels of thinking, and only the worker its tools; none is asked for."""
    level = cli(*SUMS, "--think-level", "lots")
    tool = cli(*SUMS, "--tools", "calculate,nosuch", "--id", "nosuch")
    shown = cli("show", "nosuch")

    assert (level.returncode, tool.returncode, shown.returncode) == (2, 2, 1)
    assert "'lots' is not one of 'off', 'low', 'medium', 'high'" in level.stderr
    assert "InvalidRequest: tools: the worker has no tool nosuch; it has calculate" in tool.stderr


OPTIONS = ("--seed", str(AGREE), "--tools", "")


def test_a_conversation(cli: Cli) -> None:
    run = f"session-{uuid.uuid4().hex}"

    first = cli("turn", "How much is it?", "--session", run, *OPTIONS)
    second = cli("turn", "And now?", "--session", run, *OPTIONS, "--json", "--max-steps", "2")
    refused = [cli("review", run), cli("report", run, "--html", "x.html")]
    shown, turns = cli("show", run), f"\n  turns: {run}-turn-1 to {run}-turn-2\n"
    listed, finished = cli("list", "--limit", "50"), cli("finish", run)
    third = cli("turn", "And then?", "--session", run, *OPTIONS, "--id", "third")
    again = cli("turn", "And then?", "--session", run, *OPTIONS, "--id", "third")
    wrong = cli("turn", "And then?", "--session", f"{run}-turn-1", *OPTIONS)

    assert "129" in first.stdout
    assert f"run {run}-turn-1" in first.stderr
    assert json.loads(second.stdout)["turn_count"] == 2
    assert "this has no effect: --max-steps." in second.stderr
    assert "4 messages" in shown.stdout
    assert f"mull show {run}-turn-1" in shown.stderr
    assert turns in listed.stdout
    assert "It ends after the turn under way." in finished.stderr
    assert "goes on with turn 3" in third.stderr
    assert [one.stdout for one in (third, again)] == [first.stdout] * 2
    codes = [one.returncode for one in (first, second, shown, finished, third, again)]
    assert codes == [0] * 6
    assert [one.returncode for one in (*refused, wrong)] == [2] * 3
    assert f"{run} is a session; it can't be reviewed." in refused[0].stderr
    assert f"Its turns have pages, such as {run}-turn-1." in refused[1].stderr
    assert "is a run of its own and not a session" in wrong.stderr
    assert "Traceback" not in "".join(one.stderr for one in (first, second, third, again))
