"""`retroformer`: an agent with trained reflections; `train`: what trains them."""

from collections import Counter
from functools import partial
from typing import Annotated, Any

import typer

from commands import start
from commands.command import Exit, fail
from commands.follow import New, Wanted
from commands.options import place_of, takes_fields
from commands.reflexion import MODELS, PANELS, PLACE, PROMPTS, READ, TASK, RequireCases, names_in
from reflection.agents.retroformer import RetroformerRequest
from reflection.agents.training import RetroformerTrainingRequest

HELP = {
    "retroformer": """
As reflexion, with a reward for each step, and with several reflections on each failure: a reward
model scores them, and the best is kept. `mull train` makes that model, and tunes the reflector.

Example:

    mull retroformer --env code --tasks tasks.jsonl --task t1 \\
        --reflector hosted_vllm/first --reward-model first/reward_model

The reward model is a folder in MULL_ARTIFACTS of a worker that serves the queue mull-train. The
same worker serves tuned reflectors by OpenAI's interface; workers that call models need
HOSTED_VLLM_API_BASE=http://127.0.0.1:8091/v1 to reach them.

Exit codes: as reflexion's.
""",
    "train": """
Each task is tried three times. On each failure two reflections are sampled and tried, and rated by
what they gain; a reward model learns from the pairs, and the reflector is tuned on its scores. A
worker that serves the queue mull-train does that (mull-worker --queues train).

Example:

    mull train --env code --tasks tasks.jsonl --id first \\
        --method kto --base-model base \\
        --reflector hosted_vllm/base --tuned hosted_vllm/RUN

--reflector is the model as it is called while reflections are collected, and --base-model its
weights: a folder in MULL_ARTIFACTS, or a Hugging Face name. With --tuned all tasks are tried again
with the tuned reflector, to measure what was gained; RUN stands for the id of this run.

The tuned reflector's folder goes to standard output, everything else to standard error.

Exit codes: 0 trained, 1 failed, 2 wrong usage, 3 no server or worker, 4 nothing to learn from, cut
short, or a gain that may be chance (--accept-any makes these 0), 5 cancelled, 130 detached (the run
goes on).
""",
}

TRAINING, RUN = "Training", "RUN"
_task = partial(typer.Option, rich_help_panel=TASK)


@takes_fields(
    RetroformerRequest,
    {"Reflections": ("reward_model", "reflection_tries", "reflection_temperature"), **PANELS},
)
def retroformer(
    task: Annotated[str, _task(help="The task's name.")],
    tasks: Annotated[str | None, _task(metavar="FILE", help="The file of the task.")] = None,
    require_cases: RequireCases = False,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Start an agent whose reflections a reward model chooses."""
    fields |= {"task": task, "tasks": tasks and place_of("file", tasks)}
    wanted = wanted._replace(required=1.0 if require_cases else None)
    start.begin(RetroformerRequest, fields, new, wanted)


@takes_fields(
    RetroformerTrainingRequest,
    {
        TASK: PLACE,
        MODELS: PROMPTS,
        "Rollouts": (
            "reflector", "model", "rollouts", "concurrency", "step_limit", "temperature",
            "reflector_temperature", "max_output_tokens", "keep_script_verdicts",
        ),
        TRAINING: (
            "method", "base_model", "tuned", "pairing", "seed", "epochs", "learning_rate",
            "batch_size", "max_length",
        ),
        start.BOUNDS: (
            *start.BUDGETS, "call_timeout_seconds", "step_timeout_seconds",
            "stage_timeout_seconds", "max_attempts",
        ),
    },
)  # fmt: skip
def train(
    tasks: Annotated[
        str, _task(metavar="FILE", help="The tasks' names: JSON Lines, or a name on each line.")
    ],
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Train a reflector on an environment's tasks."""
    names, structured = names_in(tasks)
    if (twice := Counter(name for _, name in names).most_common(1)[0])[1] > 1:
        fail(f"--tasks: {tasks} has the task {twice[0]} more than once.", Exit.USAGE)
    read = structured and fields["environment"] in READ
    tuned = fields["tuned"]
    if tuned is not None and RUN in tuned and new.workflow_id is None:
        fail(f"--tuned {tuned}: give the run's own id with --id.", Exit.USAGE)
    fields |= {
        "tasks": tuple(name for _, name in names),
        "task_file": place_of("file", tasks) if read else None,
        "tuned": tuned and tuned.replace(RUN, new.workflow_id or ""),
    }
    start.begin(RetroformerTrainingRequest, fields, new, wanted)
