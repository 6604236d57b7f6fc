"""The port to the workers that train: stages, the replay buffer's files, and scores.

All artifacts lie in the folder that MULL_ARTIFACTS names, which all training workers share. Each
training run has a folder there, named by its workflow's id:

    replay-buffer.jsonl   the rated pairs, a line for each
    buffer/               the same pairs by execution of the run, a file for each task and rollout
    reward_model/         the reward model, and its checkpoints until it is done
    reflector/            the tuned reflector, like the reward model an adapter of its base
    result.json           the gain, with the settings, the base and the data
"""

from pydantic import Field, FiniteFloat

from mull import queues
from mull.agents.rating import Pairing, RatedPair
from mull.agents.request import Tuning
from mull.agents.training_result import BufferCounts, RetroformerTrainingResult, Stage
from mull.request import Frozen, Record

TASK_QUEUE = queues.TRAIN
VARIABLE = "MULL_ARTIFACTS"
BUFFER = "replay-buffer.jsonl"
# The signal by which a stage reports its progress to its run.
STAGE_PROGRESS = "stage_progress"


class BaseModelTask(Frozen):
    """A model to train: a folder in MULL_ARTIFACTS, or a Hugging Face name."""

    model: str


class StageTask(Tuning):
    """A stage of a training run: `model` is the folder or name of a model to begin with.

    PPO and RLOO sample at `temperature`, at which reflections are sampled afterwards.
    """

    run: str
    stage: Stage
    pairing: Pairing
    model: str
    temperature: float = 0.9

    @property
    def learner(self) -> str:
        """The learner: the reward model, or the method of the reflector."""
        return "reward_model" if self.stage == "reward_model" else self.method


class PairTask(Frozen):
    """Two rated reflections of a failed episode, to keep in the replay buffer of a training run.

    `execution` is that run's own: a later run of the same id does not learn from these pairs.
    """

    run: str
    execution: str
    pair: RatedPair


class BufferTask(Frozen):
    """The replay buffer of a training run, to assemble from the kept pairs."""

    run: str
    execution: str
    pairing: Pairing


class BufferResult(Record):
    """The replay buffer as one file: `path` is relative to MULL_ARTIFACTS."""

    path: str
    counts: BufferCounts
    sha256: str


class ControlTask(Frozen):
    """A run whose replay buffer another one learns from, with its gains shuffled by a seed."""

    run: str
    control: str
    seed: int


class ResultTask(Frozen):
    """The result of a training run, to keep beside its artifacts."""

    run: str
    result: RetroformerTrainingResult


class ScoreTask(Frozen):
    """Reflections on one prompt, to score with a reward model, a folder in MULL_ARTIFACTS."""

    reward_model: str
    prompt: str
    reflections: tuple[str, ...] = Field(min_length=1, max_length=16)


class Scores(Record):
    """The score of each reflection, the higher the better; None if it is not a number."""

    scores: tuple[FiniteFloat | None, ...]
