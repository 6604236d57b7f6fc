"""Episodes by the activities of the executor and the evaluator, as a workflow runs them."""

from collections.abc import Callable, Sequence

from temporalio.testing import ActivityEnvironment

from activities.environments.activity import (
    EpisodeTask,
    Evaluator,
    Executor,
    LiveEnvironments,
    Setting,
    digest_of,
)
from activities.environments.port import (
    Environment,
    Evaluation,
    Maker,
    Named,
    StepResult,
    TaskRef,
    Verdict,
)
from mull.agents.memory import Action, Observation, is_done


class Episode:
    """An episode of a task; `moved` is the same one on a worker that knows nothing of it."""

    def __init__(self, maker: Maker, task: TaskRef) -> None:
        self.maker = maker
        self.task = task
        self.actions: tuple[str, ...] = ()
        self.seen: tuple[str, ...] = ()
        self.answer = ""
        self.live = LiveEnvironments([Named(task.environment, maker)])

    def moved(self) -> "Episode":
        other = Episode(self.maker, self.task)
        other.actions, other.seen = self.actions, self.seen
        return other

    async def begin(self) -> Setting:
        task = EpisodeTask(task=self.task, key="1")
        return await ActivityEnvironment().run(Executor(self.live).begin_task, task)

    async def act(self, action: str) -> StepResult:
        known = {"task": self.task, "key": "1", "actions": self.actions, "action": action}
        task = EpisodeTask.model_validate({**known, "seen": digest_of(self.seen)})
        result = await ActivityEnvironment().run(Executor(self.live).execute_action, task)
        self.actions, self.seen = (*self.actions, action), (*self.seen, result.observation)
        return result

    async def see(self, *actions: str) -> Sequence[str]:
        return [(await self.act(action)).observation for action in actions]

    def _answer(self, answer: str | None) -> EpisodeTask:
        known = {"task": self.task, "key": "1", "actions": self.actions, "answer": answer}
        return EpisodeTask.model_validate({**known, "seen": digest_of(self.seen)})

    async def evaluate(self, answer: str | None) -> Evaluation:
        evaluator = Evaluator(self.live)
        return await ActivityEnvironment().run(evaluator.evaluate_episode, self._answer(answer))

    async def verify(self, answer: str) -> Verdict:
        evaluator = Evaluator(self.live)
        return await ActivityEnvironment().run(evaluator.verify_answer, self._answer(answer))


async def of_examples(kind: type[Environment], begun: Callable[[], Episode]) -> list[Episode]:
    """Act as an environment's two examples say, which must be all that they say it answers.

    Return the episodes; the last action of each is the answer that its example gives.
    """
    episodes = []
    for example in (kind.planner_examples[0], kind.reflector_examples[0].context):
        episode, items = begun(), example.trajectory.items
        actions = [item for item in items if isinstance(item, Action)]
        assert (await episode.begin()).task == example.task
        seen = await episode.see(*(action.content for action in actions[:-1]))
        assert seen == [item.content for item in items if isinstance(item, Observation)]
        assert [is_done(action) for action in actions] == [False] * (len(actions) - 1) + [True]
        episode.answer = actions[-1].content.partition("[answer]")[2]
        episodes.append(episode)
    return episodes
