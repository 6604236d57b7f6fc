"""`retroformer`: an agent with trained reflections; `train`: what trains them."""

import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from activities.training.port import VARIABLE, StageTask
from commands import start
from commands.command import Exit, checked, fail, flag
from commands.help import COMMON, LAST, Command
from commands.options import New, Wanted, place_of, settled, takes_fields
from commands.reflexion import READ, RequireCases, names_in
from mull.agents.request import Tuning
from mull.agents.retroformer import RetroformerRequest
from mull.agents.training import RetroformerTrainingRequest, held_out
from mull.text import EXTRA

RUN = "RUN"
# Tokens of a row without --max-length.
SUPPOSED_TOKENS = 1_000


@takes_fields(RetroformerRequest)
def retroformer(
    task: Annotated[str, typer.Option(help="The task's name."), COMMON],
    tasks: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The file of the task.", rich_help_panel="Task"),
        COMMON,
    ] = None,
    require_cases: RequireCases = False,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    r"""As reflexion, with reflections that training improved.

    Each step has a reward, and each failure several reflections: a reward model scores them, and
    the best is kept. `mull train` makes that model, and tunes the reflector.

    For example:

        mull retroformer --env code --tasks tasks.jsonl --task t1 \
            --reflector reflector/first --reward-model first/reward_model

    The reward model is a folder in MULL_ARTIFACTS of a worker that serves the queue mull-train.
    The same worker serves tuned reflectors by OpenAI's interface: workers that call models find
    them at http://127.0.0.1:8091/v1, or where MULL_REFLECTORS says.

    Exit codes: as reflexion's.
    """
    fields |= {"task": task, "tasks": tasks and place_of("file", tasks)}
    wanted = wanted._replace(required=1.0 if require_cases else None)
    start.begin(RetroformerRequest, fields, new, wanted)


@takes_fields(RetroformerTrainingRequest)
def train(
    tasks: Annotated[
        str,
        typer.Option(metavar="FILE", help="The tasks' names: JSON Lines, or a name on each line."),
        COMMON,
    ],
    estimate: Annotated[
        bool,
        flag(
            "--estimate",
            help="Only print how many calls it takes, and what memory; reads MULL_ARTIFACTS.",
            rich_help_panel=LAST,
        ),
        COMMON,
    ] = False,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    r"""Train reflections on what they gain in an environment.

    Each task is tried three times. On each failure two reflections are sampled and tried, and
    rated by what they gain; a reward model learns from the pairs, and the reflector is tuned on
    its scores. A worker that serves the queue mull-train does that (mull-worker --queues
    train).

    For example:

        mull train --env code --tasks tasks.jsonl --id first \
            --method kto --base-model base \
            --reflector reflector/base --tuned reflector/RUN

    --reflector is the model as it is called while reflections are collected, and --base-model
    its weights: a folder in MULL_ARTIFACTS, a Hugging Face name, or toy. With --tuned the tasks
    held out are tried again with the tuned reflector, to measure what was gained; RUN is the id
    of this run.

    The tuned reflector's folder goes to standard output, everything else to standard error. It
    holds an adapter of the base model. `mull train merge first FOLDER` writes the whole model,
    in float32.

    Exit codes: 0 trained, 1 failed, 2 wrong usage, 3 no server or worker, 4 nothing to learn
    from, cut short, a gain that may be chance, fewer than 20 rows, or a gain measured on the
    tasks learned from (--accept-any makes these 0), 5 cancelled, 130 detached (the run goes on).
    """
    names, structured = names_in(tasks)
    if (twice := Counter(name for _, name in names).most_common(1)[0])[1] > 1:
        fail(f"--tasks: {tasks} has the task {twice[0]} more than once.")
    typed = {name for name, value in fields.items() if value is not None}
    fields = settled(RetroformerTrainingRequest, fields, new.profile)
    read = structured and fields["environment"] in READ
    tuned = fields["tuned"]
    if tuned is not None and RUN in tuned and new.workflow_id is None:
        fail(f"--tuned {tuned}: give the run's own id with --id.")
    own = new.workflow_id or RUN
    if fields["control"] and tuned and not tuned.endswith((own, RUN)):
        fail(f"--control: --tuned must end in the run's id, as reflector/{own}.")
    fields |= {
        "tasks": tuple(name for _, name in names),
        "task_file": place_of("file", tasks) if read else None,
        "tuned": tuned and tuned.replace(RUN, new.workflow_id or ""),
    }
    if estimate:
        _estimate(checked(RetroformerTrainingRequest, fields))
    else:
        start.begin(RetroformerTrainingRequest, fields, new, wanted, typed)


def merge(
    run: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a training, or its adapter's folder.")
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The whole model's folder, a new one.")
    ],
) -> None:
    """Write a tuned reflector as a whole model, in float32, where MULL_ARTIFACTS is."""
    _program("merge", run, str(folder.absolute()))


class WithMerge(Command):
    """`mull train`, and `mull train merge`, which takes nothing of its options."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **more: Any) -> Any:
        """Read the words after `mull train`."""
        if args[:1] != ["merge"]:
            return super().make_context(info_name, args, parent, **more)
        app = typer.Typer(add_completion=False)
        app.command(cls=Command)(merge)
        other = typer.main.get_command(app)
        return other.make_context(f"{info_name} merge", args[1:], parent, **more)


def _program(name: str, *arguments: str, given: str = "", folder: str = "") -> None:
    """Run a program of the extra `train` on this machine; what it prints is the command's.

    Its models are in MULL_ARTIFACTS, or else in this folder.
    """
    root = os.environ.get(VARIABLE, folder)
    if find_spec("torch") is None or not root:
        missing = f"set {VARIABLE} to the folder of models, as the worker that trains has it"
        missing = EXTRA.format("train") if root else f"{missing} (where there is none, make one)"
        fail(f"`merge` and the memory of `--estimate` are worked out on this machine: {missing}.")
    from activities.training.activity import variables

    program = (sys.executable, "-m", "activities.training.tools", name, *arguments)
    known = variables(os.environ, Path(root))
    done = subprocess.run(program, input=given, env=known, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise typer.Exit(Exit.FAILED)


def _estimate(request: RetroformerTrainingRequest) -> None:
    """Say what a training takes, at most; on a failure two reflections have an episode each."""
    each = request.rollouts * (3 * request.step_limit + 2)
    typer.echo(f"to collect: at most {len(request.tasks) * each:,} calls of models")
    if request.tuned is not None:
        measured = (held_out(request) or len(request.tasks)) * (1 + request.control)
        typer.echo(f"to measure: at most {measured * each:,} calls of models")
    task = StageTask(
        **{name: getattr(request, name) for name in Tuning.model_fields},
        run="",
        stage="reflector",
        pairing="ordered",
        model=request.base_model,
    )
    tokens = request.max_length or SUPPOSED_TOKENS
    # The toy and Hugging Face's models are in no folder of models.
    elsewhere = request.base_model == "toy" or "/" in request.base_model
    with TemporaryDirectory() as empty:
        folder = empty if elsewhere else ""
        _program("estimate", str(tokens), given=task.model_dump_json(), folder=folder)
