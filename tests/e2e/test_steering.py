"""Steering a run from the command line while it goes on."""

import json
import signal
import subprocess
import sys
import time

from tests.e2e.conftest import AGREE, NO_KEY, ROOT, SLOW, Cli
from tests.patience import PATIENCE

SUM = "What is the sum of the first 10 prime numbers?"


def detached(cli: Cli, seed: int) -> str:
    started = cli("ask", SUM, "--seed", str(seed), "--detach")
    assert started.returncode == 0, started.stderr
    return started.stdout.strip()


def test_a_run_can_be_shown_steered_and_finished(cli: Cli) -> None:
    """A detached run takes an answer, is finished by a person, and then takes nothing more."""
    run = detached(cli, SLOW)

    standing = cli("show", run)
    added = cli("add", run, "7", "--author", "ann")
    finished = cli("finish", run, "--author", "ann")
    watched = cli("watch", run, "--json")
    too_late = cli("add", run, "8")

    assert "5 calls in flight" in standing.stdout, standing.stdout
    assert (added.returncode, finished.returncode) == (0, 0), added.stderr + finished.stderr
    assert (
        f"the run ends with what it has. To see its result:\n    mull show {run}" in finished.stderr
    )
    assert json.loads(watched.stdout)["final_answer"] == "7"
    assert json.loads(watched.stdout)["stop_reason"] == "finished_by_person"
    assert (too_late.returncode, too_late.stderr) == (
        2,
        "Error: the run has already ended (completed).\n",
    )


def test_ctrl_c_detaches_and_never_cancels(cli: Cli, environment: dict[str, str]) -> None:
    """An interrupted `ask` ends with 130, says how to go on watching, and the run goes on."""
    asked = subprocess.Popen(
        [sys.executable, "starter.py", "ask", SUM, "--seed", str(SLOW), "--id", "interrupted"],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asked.stderr is not None
    assert "run interrupted" in asked.stderr.readline()
    time.sleep(1)
    asked.send_signal(signal.SIGINT)
    _, said = asked.communicate(timeout=PATIENCE)

    assert asked.returncode == 130
    assert "mull watch interrupted" in said
    assert "Traceback" not in said
    assert cli("cancel", "interrupted").returncode == 0
    assert cli("watch", "interrupted").returncode == 5
    shown = cli("show", "interrupted")
    assert (shown.returncode, shown.stdout) == (5, "")
    assert "The run was cancelled." in shown.stderr
    assert "stood at" in shown.stderr


INTERRUPTED = """
import importlib, sys

def interrupted(name):
    raise KeyboardInterrupt

importlib.import_module, sys.argv = interrupted, ["mull", "ask"]
import starter
"""


def test_ctrl_c_says_nothing_while_modules_are_imported() -> None:
    """That takes a second on a busy machine."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (130, "")


def test_an_id_in_use_is_refused(cli: Cli) -> None:
    """A second run under the id of a running one is refused, and the first goes on."""
    first = cli("ask", SUM, "--seed", str(SLOW), "--id", "chosen", "--detach")
    second = cli("ask", SUM, "--seed", str(SLOW), "--id", "chosen", "--detach")
    cli("cancel", "chosen")

    assert (first.returncode, first.stdout) == (0, "chosen\n")
    assert second.returncode == 2
    assert "a run with the id chosen is already running" in second.stderr


def test_an_id_that_is_done_is_not_paid_again(cli: Cli) -> None:
    """The same request gets the earlier result, another one is refused, --again starts anew."""
    asked = ("--seed", str(AGREE), "--id", "nightly", "--json")
    first, second = cli("ask", SUM, *asked), cli("ask", SUM, *asked)
    other = cli("ask", SUM, *asked, "--max-responses", "9")
    anew = cli("ask", SUM, *asked, "--again")

    paid = json.loads(first.stdout)["responses"][0]["timestamp"]
    assert (second.returncode, second.stdout) == (0, first.stdout)
    assert "nothing is paid again; --again starts it anew" in second.stderr
    assert (other.returncode, other.stdout) == (2, "")
    assert "the run with the id nightly is done, and had another request" in other.stderr
    assert anew.returncode == 0
    assert json.loads(anew.stdout)["responses"][0]["timestamp"] != paid


def test_an_id_whose_run_failed_is_started_anew(cli: Cli) -> None:
    """It has no result to return."""
    refused = cli("ask", SUM, "--seed", str(NO_KEY), "--id", "mended")
    mended = cli("ask", SUM, "--seed", str(AGREE), "--id", "mended")

    assert (refused.returncode, mended.returncode) == (1, 0), mended.stderr
