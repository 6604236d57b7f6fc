"""`reflexion`: an agent tries a task in episodes, or each task of a list."""

import gzip
import json
import re
import zlib
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import to_jsonable_python

from commands import command, start
from commands.command import fail, flag, with_client
from commands.help import COMMON, LAST
from commands.lines import Chosen, Given, planned
from commands.options import New, Wanted, place_of, settled, takes_fields
from mull.agents.request import CODE, ReflexionRequest

HUMAN_EVAL, HUMAN_EVAL_TASKS = "human-eval", 164
# Environments whose tasks the worker reads from a file, by their names.
READ = (CODE, "documents")
NAMES = ("task_id", "id", "_id", "task")
_task = partial(typer.Option, rich_help_panel="Task")
BY_CASES = "Exit with code 4 if the hidden test ran beside the code, or not at all."
RequireCases = Annotated[bool, flag("--require-cases", help=BY_CASES, rich_help_panel=LAST)]


@takes_fields(ReflexionRequest)
def reflexion(
    task: Annotated[
        str | None, _task(help="The task's name; by default all of FILE."), COMMON
    ] = None,
    tasks: Annotated[
        str | None,
        _task(
            metavar="FILE",
            help=f"The file of the task or tasks. {HUMAN_EVAL}: the {HUMAN_EVAL_TASKS} of that"
            " package, for --env code.",
        ),
        COMMON,
    ] = None,
    yes: Annotated[bool, flag("--yes", help="Start without asking.", rich_help_panel=LAST)] = False,
    require_cases: RequireCases = False,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Try a task again and again, and learn from each failure.

    The agent acts in an environment, is evaluated at the end of each episode, and reflects on
    why it failed before it tries again. Environments: code, documents, puzzles, textworld, and
    those that the worker was given (mull-worker --environments MODULE).

    For example:

        mull reflexion --env code --task HumanEval/0 > solution.py
        mull reflexion --env puzzles --task chain_sum:3 --strategy none
        mull reflexion --env documents --docs notes --tasks questions.jsonl --task q7
        mull reflexion --env code --tasks human-eval --scope environment --id evening
        mull batch --id evening

    The answer of the best episode goes to standard output, everything else to standard error.
    With --tasks and no --task, every task of FILE is tried, one after the other, as a batch: a
    line of JSON for each, and how many were solved after 1 episode, after 2 and so on. Only the
    names in FILE are read here (task_id, id or task of a line of JSON, or plain lines); tasks
    of code and documents are read by the worker, from the same path in a folder of its
    MULL_TASKS. Budgets in tokens and US dollars are for all tasks together.

    Exit codes: 0 solved, 1 failed, 2 wrong usage, 3 no server or worker, 4 not solved, or not
    to be built on: only a model judged, or the hidden test fails (--accept-any makes these 0
    where there is an answer), or no verdict by --require-cases, 5 cancelled, 130 detached (the
    run goes on).
    """
    if task is None and tasks is None:
        fail("give --task NAME, or --tasks FILE.")
    if task is None and new.again:
        fail("--again is for one task: give the list another --id.")
    # What follows a run takes a while to import, which `--help` should not wait for.
    from commands import rows
    from mull.client import new_id

    wanted = wanted._replace(required=1.0 if require_cases else None)
    typed = {name for name, value in fields.items() if value is not None}
    fields = settled(ReflexionRequest, fields, new.profile)
    if tasks == HUMAN_EVAL and fields["environment"] not in {CODE, None}:
        fail(f"--tasks {HUMAN_EVAL} is for --env {CODE}.")
    if tasks is None or task is not None:
        own = None if tasks in {None, HUMAN_EVAL} else tasks
        fields |= {"task": task, "tasks": own and place_of("file", own)}
        start.begin(ReflexionRequest, fields, new, wanted, typed)
        return
    bounds = {name: fields.pop(name) for name in ("budget_tokens", "budget_usd")}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    identity = new.workflow_id or new_id("reflexion", fields["environment"] or "")
    given = _planned(tasks, fields, bounds, identity)
    chosen = Chosen(identity, False, new.detach, yes, wanted, "jsonl", bounds)
    with_client(lambda client: rows.run(client, given, chosen))


def _planned(file: str, fields: dict[str, Any], bounds: dict[str, Any], identity: str) -> Given:
    """Plan the tasks of a file as a batch that makes one run after the other.

    The batch has only the names of the tasks: hidden tests and answers stay in the file.
    """
    names, structured = names_in(file)
    if structured and fields["environment"] in READ:
        fields["tasks"] = place_of("file", file)
    first = command.checked(ReflexionRequest, {**fields, "task": names[0][1]})
    if first.scope != "task" and first.memory is None:
        # Later tasks read what earlier ones of this list have learned, and no other list does.
        plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}", identity)
        fields["memory"] = identity if plain else sha256(identity.encode()).hexdigest()[:16]
    known = {name: value for name, value in fields.items() if value is not None}
    items = ((line, {"id": name, "task": name}) for line, name in names)
    given = to_jsonable_python(known, exclude_none=True)
    return planned(file, "reflexion", given, items, {**bounds, "max_concurrency": 1})


def names_in(file: str) -> tuple[list[tuple[int, str]], bool]:
    """Read the names of a file's tasks, with their lines, and whether the lines are JSON objects.

    The rest of a line is neither kept nor quoted in an error.
    """
    if file == HUMAN_EVAL:
        return [(at + 1, f"HumanEval/{at}") for at in range(HUMAN_EVAL_TASKS)], False
    names, structured = list[tuple[int, str]](), False
    for line, words in enumerate(_text(Path(file)).removeprefix("\ufeff").split("\n"), start=1):
        name: Any = words.strip()
        if name.startswith("{"):
            structured, row = True, {}
            with suppress(ValueError, RecursionError):
                row = json.loads(name)
            name = next((row[key] for key in NAMES if key in row), None)
            if not isinstance(name, str | int) or isinstance(name, bool):
                form = f"JSON with one of {', '.join(NAMES)}"
                fail(f"{file}, line {line}: expected {form}, or a name alone.")
        if name != "":
            names.append((line, str(name)))
    if not names:
        fail(f"--tasks: {file} has no tasks.")
    return names, structured


def _text(path: Path) -> str:
    if path.suffix == ".gz":
        with suppress(OSError, EOFError, zlib.error, UnicodeDecodeError):
            return gzip.decompress(path.read_bytes()).decode("utf-8")
    return command.read_file("--tasks", path)
