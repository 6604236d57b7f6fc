"""A conversation by the command line, as a user has it: messages, its end, and what it is not."""

import json
import uuid

from tests.e2e.conftest import AGREE, Cli

OPTIONS = ("--seed", str(AGREE), "--tools", "")


def test_a_conversation(cli: Cli) -> None:
    """It goes on with its turns, each of which can be shown, also after its end."""
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
