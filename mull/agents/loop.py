"""The state of a Reflexion run: its memories and episodes, and what is decided between these.

The order of calls is the source's: up to `episode_limit` times solve, evaluate, and, if it was not
correct, reflect. To solve is up to `step_limit` times to plan and, unless that was the answer, to
execute.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum
from typing import Any

from mull.agents.memory import (
    ANSWER,
    Action,
    EpisodicMemory,
    Observation,
    PlannerExample,
    ProceduralMemory,
    Reflection,
    ReflectorExample,
    SemanticMemory,
    ShortTermMemory,
    Trajectory,
    is_done,
)
from mull.agents.prompts import (
    REFLECTOR_INSTRUCTIONS,
    PlannerPrompt,
    judge_prompt,
    planner_prompt,
    reflector_prompt,
)
from mull.agents.request import ReflexionRequest
from mull.agents.result import (
    Decision,
    Episode,
    EpisodeEnd,
    ReflexionResult,
    StopReason,
    VerifiedBy,
)
from mull.replies import words_so_far
from mull.request import Review
from mull.run import Part, RunState, Spending, above, at_least
from mull.text import cut_with_note, encoded_size, tally_words

ALIKE = 3
ACTION_BYTES = 16_000
REFLECTION_BYTES = 4_000
# All actions of an episode go to the worker with each step.
EPISODE_BYTES = 64_000
# A model may go on with what it supposes the environment to say, or with its own next action, or
# repeat the prompt's last words. Each place is looked at once, however much white space there is.
SUPPOSED = r"\n[^\w\n]*(?:Observation[ \t]?\d{{0,3}}|Action[ \t]?{following})[^\w\n]{{0,3}}:.*"
ECHO = re.compile(r"\AAction[ \t]?\d{0,3}[ \t]?:")
# At the beginning of a line it is meant; a thought may name it, and code may have it anywhere.
MEANT = re.compile(rf"^[ \t]*{re.escape(ANSWER)}", re.MULTILINE)


def answer_in(content: str) -> str:
    """Return what follows the marker of an answer, or else what stands before it."""
    meant = MEANT.search(content)
    end = meant.end() if meant else content.find(ANSWER) + len(ANSWER)
    said = content[end:].partition("[/answer]")[0].strip().removeprefix(":").strip()
    while said.startswith(ANSWER):
        said = said.removeprefix(ANSWER).strip()
    return said or content[: end - len(ANSWER)].strip()


@dataclass
class Reflexion(RunState[Decision]):
    """An agent's memories, and its episodes so far.

    While an episode is `under_way`, `rewards` are those of its steps, and `ended` says how it came
    to its end. `repeats`: the newest reflection says what one that is held says.
    """

    record_type = ReflexionResult

    request: ReflexionRequest
    workflow_id: str = field(kw_only=True)
    spent: dict[Part, list[Spending]] = field(
        default_factory=lambda: {"generating": [], "evaluating": [], "revising": []}
    )
    short_term: ShortTermMemory = field(default_factory=ShortTermMemory)
    semantic: SemanticMemory = field(default_factory=SemanticMemory)
    episodic: EpisodicMemory = field(init=False)
    procedural: ProceduralMemory = field(init=False)
    episodes: list[Episode] = field(default_factory=list)
    under_way: bool = False
    rewards: list[float] = field(default_factory=list)
    ended: EpisodeEnd | None = None
    repeats: bool = False
    hidden_passed: bool | None = None
    verified_by: VerifiedBy | None = None
    replied_by: str | None = None

    def initialise(
        self,
        task: str,
        instructions: str,
        allowed_actions: tuple[str, ...],
        planner_examples: tuple[PlannerExample, ...],
        reflector_examples: tuple[ReflectorExample, ...],
    ) -> None:
        """Fill the memories; what the request has comes before what the environment has.

        Raises ValidationError if there are no examples, or no actions.
        """
        request = self.request
        self.short_term = self.short_term.update_task(task)
        self.episodic = EpisodicMemory(
            planner_examples=request.planner_examples or planner_examples,
            reflector_examples=request.reflector_examples or reflector_examples,
        )
        self.procedural = ProceduralMemory(
            episode_limit=request.episodes,
            step_limit=request.step_limit,
            allowed_actions=allowed_actions,
            planner_instructions=request.planner_instructions or instructions,
            reflector_instructions=request.reflector_instructions or REFLECTOR_INSTRUCTIONS,
        )

    @property
    def model(self) -> str | None:
        """The model that planned last, or that the request names."""
        return self.replied_by or self.request.model

    @property
    def trajectory(self) -> Trajectory:
        """The episode under way."""
        return self.short_term.trajectory

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions of the episode under way."""
        return tuple(item for item in self.trajectory.items if isinstance(item, Action))

    @property
    def executed(self) -> tuple[str, ...]:
        """The actions that the environment was given, in their order."""
        return tuple(action.content for action in self.actions[: len(self.observed)])

    @property
    def observed(self) -> tuple[str, ...]:
        """What the environment answered in the episode under way."""
        found = (item for item in self.trajectory.items if isinstance(item, Observation))
        return tuple(item.content for item in found)

    @property
    def number(self) -> int:
        """The number of the episode under way, or of the last one, from 1."""
        return len(self.episodes) + self.under_way

    @property
    def best(self) -> Episode | None:
        """The episode that solved the task, or has the highest return, the earlier of equals."""
        scored = [episode for episode in self.episodes if episode.episode_return is not None]
        scored = [episode for episode in scored if episode.correct] or scored
        most = max((one.episode_return or 0.0 for one in scored), default=0.0)
        return next((one for one in scored if at_least(one.episode_return or 0.0, most)), None)

    def begin_episode(self) -> None:
        """Clear what belongs to the episode before."""
        self.short_term = self.short_term.clear_episode()
        self.rewards, self.ended, self.under_way = [], None, True

    @property
    def seed(self) -> int | None:
        """The planner's seed in the episode under way, or the last one; None without any."""
        return None if self.request.seed is None else self.request.seed + self.number - 1

    @property
    def planner_prompt(self) -> str:
        """The prompt of the next action."""
        how, examples, strategy = self.procedural, self.episodic, self.request.strategy
        last = self.episodes[-1].trajectory if self.episodes else None
        return planner_prompt(
            PlannerPrompt(
                instructions=how.planner_instructions,
                examples=examples.planner_examples,
                allowed_actions=how.allowed_actions,
                task=self.short_term.task,
                trajectory=self.trajectory,
                reflections=self.semantic.reflections if self.request.reflects else (),
                last_episode=last if "last_episode" in strategy else None,
            )
        )

    def planned(self, text: str) -> Action:
        """Append what the planner wrote, the final answer too, which ends the episode."""
        step = len(self.actions) + 1
        supposed = SUPPOSED.format(following=step + 1)
        said = re.sub(supposed, "", words_so_far(text).strip(), flags=re.DOTALL)
        content = cut_with_note(ECHO.sub("", said).strip(), ACTION_BYTES)
        action = Action(content=content, step=step)
        self.short_term = self.short_term.add_to_trajectory(action)
        if is_done(action):
            self.short_term = self.short_term.set_answer(answer_in(content))
            self.ended = "answered"
        return action

    def executes(self) -> bool:
        """Tell whether to execute the newest action: no answer yet, and there is room for it."""
        size = sum(encoded_size(action.content) for action in self.actions)
        if self.ended is None and size > EPISODE_BYTES:
            self.ended = "too_long"
        return self.ended is None

    def observe(self, said: str, reward: float, answer: str | None, *, done: bool) -> None:
        """Append what the environment answered to the newest action, and see if that is the end."""
        step = len(self.actions)
        self.short_term = self.short_term.add_to_trajectory(Observation(content=said, step=step))
        self.rewards.append(reward)
        if done:
            self.short_term = self.short_term.set_answer(answer or "")
            self.ended = "done"
        elif self._alike():
            self.ended = "repeated_action"
        elif step >= self.procedural.step_limit:
            self.ended = "step_limit"

    def _alike(self) -> bool:
        """Tell whether the same action led to the same observation three times in a row.

        Who walks north through three rooms sees something else each time.
        """
        last = list(zip(self.executed, self.observed, strict=True))[-ALIKE:]
        return len(last) == ALIKE and len({(act.strip(), seen) for act, seen in last}) == 1

    @property
    def answer(self) -> str | None:
        """The answer of the episode under way; None if there is none."""
        said = self.short_term.answer
        return said if self.ended == "answered" else said or None

    @property
    def judge_prompt(self) -> str:
        """The prompt of a model that judges the episode."""
        return judge_prompt(self.short_term.task, self.trajectory, self.answer)

    def evaluated(
        self, reward: float, feedback: str, metrics: dict[str, float], **found: Any
    ) -> Episode:
        """Keep the episode, and what it is worth: the rewards of its steps and of its end."""
        worth = fsum((*self.rewards, reward))
        self.short_term = self.short_term.set_reward(worth)
        return self._keep(worth, feedback=feedback, metrics=metrics, **found)

    def cut_off(self) -> None:
        """Keep an episode that was not evaluated, if it has begun."""
        if self.under_way and self.actions:
            self._keep(None)
        self.under_way = False

    def _keep(self, worth: float | None, **found: Any) -> Episode:
        episode = Episode(
            number=self.number,
            trajectory=self.trajectory,
            answer=self.answer,
            ended=self.ended or "cut_short",
            steps=len(self.actions),
            episode_return=worth,
            **found,
            reflections=len(self.semantic.reflections) if self.request.reflects else 0,
        )
        self.episodes.append(episode)
        self.under_way = False
        return episode

    @property
    def reflector_prompt(self) -> str:
        """The prompt of a reflection on the episode that has just failed."""
        last = self.episodes[-1]
        return reflector_prompt(
            self.procedural,
            self.episodic,
            self.short_term.task,
            self.trajectory,
            self.short_term.reward,
            last.feedback,
        )

    def reflected(self, text: str) -> Reflection | None:
        """Keep a reflection with its episode; return it, or None if it is held or says nothing."""
        said = cut_with_note(words_so_far(text).strip(), REFLECTION_BYTES)
        if not said:
            self.warn(f"the reflection on episode {len(self.episodes)} was empty")
            return None
        self.episodes[-1] = self.episodes[-1].model_copy(update={"reflection": said})
        alike = [one for one in self.semantic.reflections if one.text.split() == said.split()]
        # What another run has learned, too, is not added again, but ends nothing.
        self.repeats = any(one.workflow_id == self.workflow_id for one in alike)
        if alike:
            return None
        return Reflection(
            text=said,
            environment=self.request.environment,
            task=self.request.task,
            workflow_id=self.workflow_id,
            episode=len(self.episodes),
        )

    def decide(self, at: datetime) -> Decision:
        """Decide after an evaluation or a reflection what comes next, and record it."""
        reflected = self.last is not None and self.last.next == "reflect"
        step, reason = self._after_reflection() if reflected else self._after_evaluation()
        if step in {"reflect", "episode"}:
            return self.settle(None, reason, at, next=step)
        return self.settle(step, reason, at)

    def _after_evaluation(self) -> tuple[Any, str]:
        done = self.episodes[-1]
        if done.correct:
            return "solved", f"episode {done.number} solved the task"
        stuck = [episode.stuck_in for episode in self.episodes[-2:]]
        if len(stuck) > 1 and stuck[0] is not None and stuck[0] == stuck[1]:
            return "repeated_action", f"two episodes ended in the same action, {ALIKE} times alike"
        best, patience = self.best, self.request.plateau_episodes
        if best and patience and above(best.episode_return or 0, 0):
            since = len(self.episodes) - best.number
            if since >= patience:
                said = f"no gain in {tally_words(since, 'episode')} over the best return"
                return "plateau", f"{said}, {best.episode_return:g}"
        if self.request.reflects:
            return "reflect", f"episode {done.number} failed"
        return self._after_reflection()

    def _after_reflection(self) -> tuple[Any, str]:
        done, most = self.episodes[-1], self.request.episodes
        if self.repeats:
            return "repeated_reflection", "the reflection says what an earlier one says"
        if done.number >= most:
            return "episode_limit", f"the limit of {tally_words(most, 'episode')} is reached"
        return "episode", f"episode {done.number} failed"

    def settle(
        self,
        reason: StopReason | None,
        explanation: str,
        at: datetime,
        author: str | None = None,
        next: Any = None,  # noqa: A002 - the field's name
    ) -> Decision:
        """Record a decision: why the run ends, or, without a reason, what comes next."""
        last, best = self.episodes[-1] if self.episodes else None, self.best
        decision = Decision(
            episode=len(self.episodes),
            next=next,
            stop=reason is not None,
            stop_reason=reason,
            reason=explanation,
            episode_return=last and last.episode_return,
            correct=last and last.correct,
            best=best and best.number,
            reflections=len(self.semantic.reflections),
            author=author,
            at=at,
        )
        self.decisions.append(decision)
        return decision

    def stop(
        self, reason: Any, explanation: str, at: datetime, author: str | None = None
    ) -> Decision:
        """End the run; the episode under way is kept as far as it came."""
        self.cut_off()
        return self.settle(reason, explanation, at, author)

    def refused(self, given: Review) -> str | None:
        """Explain why a review is refused: no result of an agent waits for one."""
        del given
        return "an agent's result takes no review"

    def prompt(self, part: Part) -> tuple[list[str], int | None]:
        """List the texts in the prompt of a part's next call, and give its output limit, if set."""
        prompts = {"generating": "planner_prompt", "revising": "reflector_prompt"}
        shown: str = getattr(self, prompts.get(part, "judge_prompt"))
        return [shown], self.request.max_output_tokens

    def _shown(self) -> dict[str, Any]:
        best = self.best
        kept = best or (self.episodes[-1] if self.episodes else None)
        answer = kept.answer if kept else None
        unsolved = "exhausted" if answer else "no_answer"
        return {
            "environment": self.request.environment,
            "task": self.request.task,
            "task_text": self.short_term.task,
            "strategy": self.request.strategy,
            "episode_limit": self.request.episodes,
            "episodes": tuple(self.episodes),
            "reflections": self.semantic.reflections,
            "best": best and best.number,
            "judged": self.request.judge is not None,
            "answer": answer,
            "status": "solved" if best and best.correct else unsolved,
            "best_return": best and best.episode_return,
            "hidden_passed": self.hidden_passed,
            "verified_by": self.verified_by,
            "trajectory": None if self.stopped else self.trajectory,
        }
