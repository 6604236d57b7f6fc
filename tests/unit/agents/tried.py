"""Agents driven without a workflow: episodes by scripted replies, in an environment of words."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from mull.agents.loop import Reflexion
from mull.agents.memory import Action, Observation, PlannerExample, ReflectorExample, Trajectory
from mull.agents.request import ReflexionRequest
from mull.agents.result import Episode

AT = datetime(2026, 1, 1, tzinfo=UTC)
INSTRUCTIONS = "Count up, then answer."
ACTIONS = ("add[N]: adds N", "[answer] N: the final answer")


def steps(*pairs: tuple[str, str], answer: str | None = None) -> Trajectory:
    """Make a trajectory of actions and what was observed after each, and an answer."""
    found: list[Action | Observation] = []
    for step, (action, seen) in enumerate(pairs, 1):
        found += [Action(content=action, step=step), Observation(content=seen, step=step)]
    if answer is not None:
        found.append(Action(content=answer, step=len(pairs) + 1))
    return Trajectory(items=tuple(found))


EXAMPLE = PlannerExample(
    task="Count to 1.", trajectory=steps(("add[1]", "The sum is 1."), answer="[answer] 1")
)
FAILURE = PlannerExample(task="Count to 2.", trajectory=steps(answer="[answer] 3"))
LESSON = ReflectorExample(context=FAILURE, reflection="I should have added 2.")


def agent(**request: Any) -> Reflexion:
    """Begin a run whose memories are initialised."""
    whole = {"environment": "counting", "task": "7"} | request
    state = Reflexion(ReflexionRequest.model_validate(whole), workflow_id="agent-1")
    state.initialise("Count to 7.", INSTRUCTIONS, ACTIONS, (EXAMPLE,), (LESSON,))
    return state


def numbered() -> Callable[[str], str]:
    """Make an environment in which no two observations are alike."""
    count: Iterator[int] = iter(range(10_000))
    return lambda _: f"Seen {next(count)}."


def try_once(
    state: Reflexion,
    replies: Sequence[str],
    *,
    worth: float = 0.0,
    correct: bool = False,
    reflection: str | None = None,
    seen: Callable[[str], str] | None = None,
    reward: float = 0.0,
) -> Episode:
    """Make an episode as the workflow does: solve, evaluate, and reflect if that was decided."""
    observed, given = seen or numbered(), list(replies)
    state.begin_episode()
    while state.ended is None:
        action = state.planned(given.pop(0))
        if state.executes():
            state.observe(observed(action.content), reward, None, done=False)
    number = state.number
    state.evaluated(worth, "", {}, correct=correct)
    made = state.decide(AT)
    if made.next == "reflect":
        text = f"Lesson {number}." if reflection is None else reflection
        found = state.reflected(text)
        if found is not None:
            state.semantic = state.semantic.remember(found)
        state.decide(AT)
    return state.episodes[-1]


def told(state: Reflexion) -> list[str | None]:
    """List what each decision says: what comes next, or why the run ends."""
    return [made.next or made.stop_reason for made in state.decisions]
