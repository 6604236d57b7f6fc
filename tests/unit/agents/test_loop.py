"""Runs from their first episode to their end: what each decision is, and what is kept."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import to_json

from commands.follow import against
from commands.options import Wanted
from mull.agents.loop import ACTION_BYTES, EPISODE_BYTES, Reflexion, answer_in
from mull.agents.memory import Observation, Reflection
from mull.agents.prompts import written
from mull.agents.request import ReflexionRequest
from mull.agents.result import VerifiedBy
from mull.agents.sheet import sheet
from mull.loops import REFLEXION
from mull.request import told as told_of
from mull.sheet import Sheet
from mull.text import RESULT_BYTES, encoded_size, fitted
from tests.unit.agents.tried import AT, agent, numbered, told, try_once

AGAIN = ["reflect", "episode"]
WRONG = ["[answer] 0"]
CODE = "def f(xs):\n    return {x: xs[0][1:]}"


def run(state: Reflexion, *worths: float, solved: int = 0, **more: Any) -> Reflexion:
    """Make an episode for each worth while the run goes on; one of them solves the task."""
    for number, worth in enumerate(worths, 1):
        if state.stopped:
            break
        try_once(state, WRONG, worth=worth, correct=number == solved, **more)
    return state


@pytest.mark.parametrize(
    ("request_", "worths", "solved", "decided"),
    [
        ({}, [1], 1, ["solved"]),
        ({}, [0, 1], 2, [*AGAIN, "solved"]),
        ({}, [0, 0, 0, 0, 1], 5, [*AGAIN * 4, "solved"]),
        ({}, [0] * 9, 0, [*AGAIN * 4, "reflect", "episode_limit"]),
        ({"episode_limit": 1}, [0] * 9, 0, ["reflect", "episode_limit"]),
        ({"episode_limit": 12}, [0] * 13, 0, [*AGAIN * 11, "reflect", "episode_limit"]),
        ({"strategy": "none"}, [0] * 9, 0, ["episode"] * 4 + ["episode_limit"]),
        ({"strategy": "last_episode"}, [0, 1], 2, ["episode", "solved"]),
        ({"strategy": "last_episode_and_reflexion"}, [0, 1], 2, [*AGAIN, "solved"]),
        ({}, [0.5] * 5, 0, [*AGAIN * 4, "reflect", "episode_limit"]),
        ({"episode_limit": 9}, [0.5] * 9, 0, [*AGAIN * 5, "plateau"]),
        ({"plateau_episodes": 3}, [0.5, 0.4, 0.1, 0.5, 0.5], 0, [*AGAIN * 3, "plateau"]),
        ({}, [0.1, 0.2, 0.3, 0.4, 0.5], 0, [*AGAIN * 4, "reflect", "episode_limit"]),
        ({}, [0, 0, 0, 0.1, 0], 0, [*AGAIN * 4, "reflect", "episode_limit"]),
        ({}, [-1, -1, -1, -1, -1], 0, [*AGAIN * 4, "reflect", "episode_limit"]),
        ({"plateau_episodes": 3}, [0, 0.5, 0, 0, 0], 0, [*AGAIN * 4, "plateau"]),
        ({"plateau_episodes": 1}, [0.5, 0.5], 0, [*AGAIN, "plateau"]),
        ({"plateau_episodes": 1}, [0.3, 0.1 + 0.2], 0, [*AGAIN, "plateau"]),
        ({"plateau_episodes": 1, "episode_limit": 2}, [0.1 + 0.2 - 0.3] * 2, 0,
         [*AGAIN, "reflect", "episode_limit"]),
        ({"plateau_episodes": 0}, [0.5] * 5, 0, [*AGAIN * 4, "reflect", "episode_limit"]),
        ({"plateau_episodes": 1, "strategy": "none"}, [0.5, 0.5], 0, ["episode", "plateau"]),
        ({"plateau_episodes": 1}, [0.5, 0.5], 2, [*AGAIN, "solved"]),
        ({"judge": "judge/model"}, [0] * 5, 0, [*AGAIN, "reflect", "episode_limit"]),
        ({"judge": "judge/model", "episode_limit": 1}, [0], 0, ["reflect", "episode_limit"]),
        ({"judge": "judge/model"}, [0, 1], 2, [*AGAIN, "solved"]),
    ],
)  # fmt: skip
def test_what_is_decided_after_each_episode(
    request_: dict[str, Any], worths: list[float], solved: int, decided: list[str]
) -> None:
    """A failure is reflected on, the last one too; a plateau counts over a return above 0 alone."""
    state = run(agent(**request_), *worths, solved=solved)

    assert told(state) == decided
    assert len(state.episodes) == sum(one != "reflect" for one in decided)
    assert [made.stop for made in state.decisions] == [False] * (len(decided) - 1) + [True]


@pytest.mark.parametrize(
    ("worths", "solved", "best", "status"),
    [
        ([0.2, 0.9, 0.5, 0.1, 0.3], 0, 2, "exhausted"),
        ([0.9, 0.9, 0.5], 0, 1, "exhausted"),
        ([0.3, 0.1 + 0.2, 0.2], 0, 1, "exhausted"),
        ([0, 0, 0, 0, 0], 0, 1, "exhausted"),
        ([-2, -1, -3, -4, -1], 0, 2, "exhausted"),
        ([0.9, 0.1], 2, 2, "solved"),
    ],
)
def test_the_best_episode_is_kept(worths: list[float], solved: int, best: int, status: str) -> None:
    """The one that solved it, else the highest return, the earlier of equals; not the last."""
    state = agent()
    for number, worth in enumerate(worths, 1):
        try_once(state, [f"[answer] {number}"], worth=worth, correct=number == solved)
    if not state.stopped:
        state.stop("finished_by_person", "ann ended it", AT, "ann")

    result = state.result()
    assert (result.best, result.answer, result.status) == (best, str(best), status)
    assert result.best_return == worths[best - 1]
    for made in state.decisions:
        order = [(at == solved, round(worth, 9)) for at, worth in enumerate(worths, 1)]
        assert made.best == 1 + order.index(max(order[: made.episode]))


def test_a_return_is_the_exact_sum_of_its_rewards() -> None:
    """Ten rewards of 0.1 are 1; and each episode has a seed of its own, where any was given."""
    state, unseeded = agent(seed=7), agent()

    made = try_once(state, ["add[1]"] * 10 + WRONG, reward=0.1)
    seeds = [state.seed]
    state.begin_episode()

    assert (made.episode_return, [*seeds, state.seed], unseeded.seed) == (1.0, [7, 8], None)


@given(
    worths=st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12),
    solved=st.integers(0, 12),
    limit=st.integers(1, 12),
    patience=st.integers(0, 4),
    reflects=st.booleans(),
)
def test_every_run_ends_as_its_rules_say(
    worths: list[float], solved: int, limit: int, patience: int, *, reflects: bool
) -> None:
    """Never more episodes than the limit, none after a success, three reflections at most."""
    known: dict[str, Any] = {"episode_limit": limit, "plateau_episodes": patience}
    state = agent(strategy="reflexion" if reflects else "none", **known)
    for number, worth in enumerate(worths[:limit], 1):
        if not state.stopped:
            try_once(state, WRONG, worth=worth, correct=number == solved)

    made = [one for one in told(state) if one != "reflect"]
    assert len(state.episodes) == len(made) <= limit
    assert ("solved" in made) == any(episode.correct for episode in state.episodes)
    assert set(made[:-1]) <= {"episode"}
    assert len(state.semantic.reflections) == min(3, told(state).count("reflect"))
    if made[-1] == "episode_limit":
        assert len(made) == limit
    if made[-1] == "plateau":
        first = worths.index(max(worths[: len(made)]))
        assert worths[first] > 0
        assert len(made) - (first + 1) >= patience > 0


@pytest.mark.parametrize(
    ("acts", "observed", "ended", "count"),
    [
        (["go north"] * 5, ["A wall."] * 5, "repeated_action", 3),
        (["go north"] * 5, ["Hall.", "Wall.", "Wall.", "Wall.", "Wall."], "repeated_action", 4),
        (["go north"] * 5, ["Hall.", "Room.", "Attic.", "Roof.", "Sky."], "step_limit", 5),
        (["go north", " go north", "go north\n"], ["A wall."] * 3, "repeated_action", 3),
        (["go", "look", "go", "look", "go"], ["A wall."] * 5, "step_limit", 5),
        (["go", "go", "look", "go", "go"], ["A wall."] * 5, "step_limit", 5),
        (["go 1", "go 2", "go 3", "go 4", "go 5"], ["A wall."] * 5, "step_limit", 5),
        (["go", "go", "[answer] 7"], ["A wall."] * 3, "answered", 3),
    ],
)  # fmt: skip
def test_three_steps_alike_end_an_episode(
    acts: list[str], observed: list[str], ended: str, count: int
) -> None:
    """The same action with the same observation, in a row; who gets on does not repeat himself."""
    said = iter(observed)
    episode = try_once(agent(step_limit=5), acts, seen=lambda _: next(said))

    assert (episode.ended, episode.steps) == (ended, count)
    assert (episode.stuck_in is not None) == (ended == "repeated_action")


def wall(_: str) -> str:
    """Observe the same whatever is done."""
    return "A wall."


@pytest.mark.parametrize(
    ("episodes", "decided"),
    [
        ([["north"] * 3, ["north"] * 3], [*AGAIN, "repeated_action"]),
        ([["north"] * 3, ["  north "] * 3], [*AGAIN, "repeated_action"]),
        ([["north"] * 3, ["south"] * 3], [*AGAIN * 2]),
        ([["north"] * 3, ["look", *["north"] * 3]], [*AGAIN, "repeated_action"]),
        ([["north"] * 3, WRONG, ["north"] * 3], [*AGAIN * 3]),
        ([["north"] * 3, ["south"] * 3, ["south"] * 3], [*AGAIN * 2, "repeated_action"]),
    ],
)  # fmt: skip
def test_two_episodes_in_a_row_in_the_same_action_end_the_run(
    episodes: Sequence[list[str]], decided: list[str]
) -> None:
    """One such episode has failed and is reflected on; a second one with that action is the end."""
    state = agent()
    for acts in episodes:
        try_once(state, acts, seen=wall)

    assert told(state) == decided


@pytest.mark.parametrize(
    ("reflections", "decided", "held"),
    [
        # That says more than the limit of two episodes, which it reaches too.
        (["Look.", "Look.", None], [*AGAIN, "reflect", "repeated_reflection"], 1),
        (["Look.", "Look."], [*AGAIN, "reflect", "repeated_reflection"], 1),
        (["Look.", " Look.\n"], [*AGAIN, "reflect", "repeated_reflection"], 1),
        (["Look.", "Listen.", "Look."], [*AGAIN * 2, "reflect", "repeated_reflection"], 2),
        (["A", "B", "C", "D", "A"], [*AGAIN * 4, "reflect", "episode_limit"], 3),
        (["", "", ""], [*AGAIN * 3], 0),
        (["<think>Hm</think>Look.", "Look."], [*AGAIN, "reflect", "repeated_reflection"], 1),
        (["<think>I ran out of words", "Look."], [*AGAIN * 2], 1),
    ],
)  # fmt: skip
def test_a_repeated_reflection_ends_the_run(
    reflections: Sequence[str | None], decided: list[str], held: int
) -> None:
    """What is held already is not added again; an empty one is none, and is warned of."""
    state = agent(episode_limit=2 if None in reflections else 5)
    texts = [text for text in reflections if text is not None]
    for text in texts:
        try_once(state, WRONG, reflection=text)

    assert told(state) == decided
    assert len(state.semantic.reflections) == held
    assert len(state.warnings) == sum(text == "" or text.startswith("<think>I") for text in texts)


def test_what_an_earlier_run_learned_is_not_added_again_and_ends_nothing() -> None:
    """Only a run that repeats itself is stopped."""
    state = agent(memory="counting")
    state.semantic = state.semantic.add(Reflection(text="Look.", workflow_id="agent-0", episode=3))
    try_once(state, WRONG, reflection="Look.")

    assert told(state) == ["reflect", "episode"]
    assert len(state.semantic.reflections) == 1


def test_a_reflection_says_where_it_comes_from() -> None:
    """The run, its episode, its environment and its task."""
    state = agent()
    try_once(state, WRONG)
    try_once(state, WRONG)

    assert state.semantic.reflections[1] == Reflection(
        text="Lesson 2.", environment="counting", task="7", workflow_id="agent-1", episode=2
    )
    assert [episode.reflection for episode in state.episodes] == ["Lesson 1.", "Lesson 2."]
    assert [episode.reflections for episode in state.episodes] == [0, 1]


@pytest.mark.parametrize(
    ("reply", "content", "answer"),
    [
        ("add[7]", "add[7]", None),
        ("Thought: seven is needed.\nadd[7]", "Thought: seven is needed.\nadd[7]", None),
        ("Thought: up.\nAction: add[7]", "Thought: up.\nAction: add[7]", None),
        ("Thought: up.\nAction 1: add[7]", "Thought: up.\nAction 1: add[7]", None),
        ("Action 1: add[7]", "add[7]", None),
        ("Action: add[7]", "add[7]", None),
        ("  add[7]\n\n", "add[7]", None),
        ("add[7]\nObservation 1: The sum is 7.\nAction 2: [answer] 7", "add[7]", None),
        ("add[7]\n\nObservation: The sum is 7. [answer] 7", "add[7]", None),
        ("add[7]\n**Observation 1:** The sum is 7. [answer] 7", "add[7]", None),
        ("add[7]\nAction 2: [answer] 7", "add[7]", None),
        ("add[7]\n\n**Action 2**: [answer] 7", "add[7]", None),
        ("Observations matter: add[7]", "Observations matter: add[7]", None),
        ("add[7]\nObservation posts: 3", "add[7]\nObservation posts: 3", None),
        ("<think>[answer] 9?</think>\nadd[7]", "add[7]", None),
        ("<thinking>No.</thinking>[answer] 7", "[answer] 7", "7"),
        ("<think>I could say [answer] 9, but", "", None),
        ("", "", None),
        ("   ", "", None),
        ("[answer] 7", "[answer] 7", "7"),
        ("[answer]: 7", "[answer]: 7", "7"),
        ("[answer]\n7", "[answer]\n7", "7"),
        ("[answer] 7 [/answer]", "[answer] 7 [/answer]", "7"),
        ("[answer]7[/answer] I am sure.", "[answer]7[/answer] I am sure.", "7"),
        ("The sum is 7. [answer]", "The sum is 7. [answer]", "The sum is 7."),
        ("[answer]", "[answer]", ""),
        ("Thought: done.\n[answer] 7", "Thought: done.\n[answer] 7", "7"),
        ("I write [answer] now.\n[answer] 7", "I write [answer] now.\n[answer] 7", "7"),
        ("Done. [answer] 7", "Done. [answer] 7", "7"),
        ("[answer] 7\nObservation: Right!", "[answer] 7", "7"),
        ("[answer] return d[answer]", "[answer] return d[answer]", "return d[answer]"),
        (f"[answer]\n{CODE}", f"[answer]\n{CODE}", CODE),
        ("[answer] Zürich", "[answer] Zürich", "Zürich"),
        ("思考:结束。\n[answer] 七", "思考:结束。\n[answer] 七", "七"),
        ("Réponse : [answer] « sept »", "Réponse : [answer] « sept »", "« sept »"),
        ("[Answer] 7", "[Answer] 7", None),
        ("[réponse] 7", "[réponse] 7", None),
    ],
)
def test_what_a_model_s_reply_is_taken_for(reply: str, content: str, answer: str | None) -> None:
    """Its thinking, an echo and what it supposes to come are left out; the answer has no marker."""
    state = agent()
    state.begin_episode()
    action = state.planned(reply)

    assert (action.content, action.step) == (content, 1)
    assert state.trajectory.items == (action,)
    assert state.ended == (None if answer is None else "answered")
    assert state.answer == answer
    assert state.executes() is (answer is None)


def test_the_planner_appends_each_action_and_the_final_one_too() -> None:
    """Figures 7 and 8: action, observation, action; after the answer nothing is executed."""
    state = agent()
    episode = try_once(state, ["add[3]", "add[4]", "[answer] 7"], seen=lambda said: f"did {said}")

    assert written(episode.trajectory).splitlines() == [
        "Action 1: add[3]", 'Observation 1: "did add[3]"',
        "Action 2: add[4]", 'Observation 2: "did add[4]"', "Action 3: [answer] 7",
    ]  # fmt: skip
    assert state.executed == ("add[3]", "add[4]")


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_an_episode_has_at_most_so_many_steps(limit: int) -> None:
    """Figure 6: without an answer it ends there, and an answer may be the last of them."""
    state = agent(step_limit=limit)
    episode = try_once(state, ["add[1]"] * 9)
    assert (episode.ended, episode.steps, episode.answer) == ("step_limit", limit, None)

    episode = try_once(state, ["add[1]"] * (limit - 1) + ["[answer] 7"])
    assert (episode.ended, episode.steps, episode.answer) == ("answered", limit, "7")


@pytest.mark.parametrize(("answer", "ended"), [(None, None), ("", None), ("7", "7")])
def test_an_environment_may_end_an_episode(answer: str | None, ended: str | None) -> None:
    """A game that is over ends it without the marker, and with its answer, if there is one."""
    state = agent()
    state.begin_episode()
    state.planned("open the chest")
    state.observe("You win.", 1.0, answer, done=True)
    episode = state.evaluated(0.0, "", {}, correct=True)

    assert (episode.ended, episode.answer, episode.episode_return) == ("done", ended, 1.0)
    assert state.decide(AT).stop_reason == "solved"


def test_the_return_is_the_rewards_of_steps_and_end() -> None:
    """Of this episode alone: the next one begins at 0, with an empty trajectory and no answer."""
    state = agent()
    first = try_once(state, ["add[1]", "add[2]", "[answer] 9"], worth=0.5, reward=0.125)
    assert (first.episode_return, state.short_term.reward) == (0.75, 0.75)
    state.begin_episode()

    assert (state.rewards, state.trajectory.items, state.answer) == ([], (), None)
    assert state.short_term.model_dump() == agent().short_term.model_dump()


def test_actions_of_any_size_end_an_episode_that_is_too_long() -> None:
    """One action is cut, and where all are too much for a task of an activity none is executed."""
    state = agent(step_limit=50)
    episode = try_once(state, [f"{number}" + "x" * 20_000 for number in range(9)])

    sizes = [encoded_size(str(item.content)) for item in episode.trajectory.items]
    assert (episode.ended, episode.steps, episode.stuck_in) == ("too_long", 5, None)
    assert max(sizes) <= ACTION_BYTES
    assert sum(map(encoded_size, state.executed)) <= EPISODE_BYTES
    assert not isinstance(episode.trajectory.items[-1], Observation)


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_run_that_is_cut_short_in_an_episode_keeps_what_was_done(done: int) -> None:
    """The episode has no return and is no candidate for the best; before any step it is none."""
    state = agent()
    try_once(state, ["[answer] 3"], worth=0.25)
    state.begin_episode()
    for _ in range(done):
        state.planned("add[1]")
        state.observe("The sum is 1.", 0.5, None, done=False)
    state.stop("deadline", "the time is up", AT)

    result = state.result()
    kept = result.episodes[1:]
    assert [one.steps for one in kept] == ([done] if done else [])
    for one in kept:
        assert (one.ended, one.episode_return, one.correct) == ("cut_short", None, None)
    assert (result.best, result.answer, result.status) == (1, "3", "exhausted")
    assert (result.stop_reason, result.stop_explanation) == ("deadline", "the time is up")
    assert state.number == len(result.episodes)


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_run_that_is_cut_short_after_an_answer_keeps_it(evaluated: bool) -> None:
    """What was not evaluated is not the best, nor known to be right; what was stays as it was."""
    state = agent()
    state.begin_episode()
    state.planned("[answer] 3")
    if evaluated:
        state.evaluated(0.25, "", {}, correct=False)
        state.decide(AT)
    state.stop("finished_by_person", "ann ended it", AT, "ann")

    result = state.result()
    [episode] = result.episodes
    assert (result.best, result.answer, result.status) == (evaluated or None, "3", "exhausted")
    assert (episode.ended, episode.correct) == ("answered", False if evaluated else None)
    assert (episode.episode_return, episode.reflection) == (0.25 if evaluated else None, None)
    assert told(state) == [*["reflect"] * evaluated, "finished_by_person"]
    assert result.decisions[-1].author == "ann"


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"judge": "m", "episode_limit": 3}, "at most 2 where a model judges"),
        ({"judge": "m", "episode_limit": 12}, "at most 2 where a model judges"),
        ({"episode_limit": 13}, "episode_limit"),
        ({"step_limit": 51}, "step_limit"),
        ({"strategy": "last"}, "strategy"),
        ({"environment": "../x"}, "environment"),
        ({"memory": "../x"}, "memory"),
    ],
)
def test_a_request_is_held_to_its_limits(given_: dict[str, Any], message: str) -> None:
    """Two episodes where only a model judges, twelve at most, and fifty steps."""
    whole = {"environment": "counting", "task": "7"} | given_

    with pytest.raises(ValidationError, match=message):
        ReflexionRequest.model_validate(whole)


@pytest.mark.parametrize("letter", ["a", "\u6f22", "\x01", '"'])
@pytest.mark.parametrize("size", [1_200, 20_000])
def test_progress_and_result_fit_an_event(letter: str, size: int) -> None:
    """Twelve episodes of fifty huge steps; the answer, the order of steps and all numbers stay."""
    state = agent(episode_limit=12, step_limit=50, plateau_episodes=0)
    huge = letter * (size // encoded_size(letter))
    seen: Callable[[str], str] = lambda _: letter * (4_000 // encoded_size(letter))  # noqa: E731
    for number in range(1, 13):
        acts = [f"{step} {huge}" for step in range(49)] + [f"[answer] {number} {huge}"]
        try_once(state, acts, worth=number / 100, seen=seen, reflection=f"{number} {huge}")
    began = time.thread_time()
    progress, result = fitted(state.record(step="reflect", in_flight=1)), state.result()
    took = time.thread_time() - began

    for found in (progress, result):
        assert len(to_json(found)) <= RESULT_BYTES
        assert len(found.episodes) == 12
        assert found.best_episode == found.episodes[11]
        assert [one.steps for one in found.episodes] == [one.steps for one in state.episodes]
        assert any("were cut" in warning for warning in found.warnings)
    assert result.answer == state.episodes[11].answer
    assert len(result.decisions) == 24
    assert sheet(result).verdict.stop_reason == "episode_limit"
    assert took < 1.5


@pytest.mark.parametrize(
    "reply",
    [
        "a" + "\n" * 49_000 + "b", "Action" + " " * 99_000 + "b",
        "\nObservation" + " " * 99_000 + "b", "a\nObservation" * 7_000, "\n[answer" * 9_000,
        "\n- " * 30_000 + "b", "<think>" * 12_000, "x [answer]" * 9_000,
    ],
    ids=["lines", "echo", "supposed", "observations", "markers", "list", "thoughts", "answers"],
)  # fmt: skip
def test_any_reply_is_read_in_a_moment(reply: str) -> None:
    """A workflow that reads for two seconds is taken for a deadlock, and would never go on."""
    state = agent()
    state.begin_episode()
    began = time.thread_time()
    state.planned(reply)

    assert time.thread_time() - began < 0.5


@given(text=st.text(max_size=30))
def test_an_answer_is_what_follows_its_marker(text: str) -> None:
    """Whatever it says, without the white space around it."""
    said = text.partition("[/answer]")[0].strip().removeprefix(":").strip()

    assert answer_in(f"[answer] {text}") == said
    assert answer_in(f"Thought: done.\n[answer]\n{text}") == (said or "Thought: done.")


def facts(shown: Sheet) -> dict[str, str]:
    return {fact.label: fact.value for fact in shown.facts}


def test_the_sheet_of_a_run_that_goes_on() -> None:
    """The episodes so far, the best one, and what is under way; nothing is unsolved yet.

    Before the first episode there is no answer, no curve and no best episode.
    """
    state = agent()
    first = sheet(state.record(step="the task", in_flight=1))
    try_once(state, ["add[2]", "[answer] 2"], worth=0.5)
    state.begin_episode()

    shown = sheet(state.record(step="episode 2, step 1: plan", in_flight=1))
    verdict = ("episode 2, step 1: plan, 1 call in flight", "running")
    assert (shown.subject, shown.flags) == ("counting: 7", ())
    assert (shown.verdict.words, shown.verdict.tone) == verdict
    assert shown.answer is not None
    assert (shown.answer.content, shown.answer.note) == ("2", "episode 1, return 0.5")
    assert facts(shown).items() >= {
        "episodes": "1 of 5", "strategy": "reflexion", "best": "episode 1, return 0.5",
        "evaluated by": "counting", "reflections held": "1",
    }.items()  # fmt: skip
    steps = [(step.words, step.below) for step in shown.steps]
    assert steps == [("episode 1: return 0.5, 2 steps", ("Lesson 1.",))]
    assert (first.answer, first.charts, first.steps) == (None, (), ())
    assert facts(first)["best"] == "none yet"


@pytest.mark.parametrize(
    ("request_", "worths", "hidden", "flag", "doubt", "fact"),
    [
        (
            {"episode_limit": 2}, (0.5, 0.25), None, "the task is not solved",
            "not solved: the limit of 2 episodes is reached", ("episodes", "2 of 2"),
        ),
        (
            {"judge": "judge/model"}, (1.0,), None,
            "only a model judged whether an episode succeeded",
            "only a model judged that it is solved", ("evaluated by", "a model's judgement"),
        ),
        (
            {"environment": "code"}, (1.0,), False, "the hidden test fails",
            "its own tests pass, and the hidden test fails", ("hidden test", "failed"),
        ),
    ],
)  # fmt: skip
def test_the_sheet_of_a_run_that_is_not_to_be_built_on(
    request_: Any, worths: Any, hidden: bool | None, flag: str, doubt: str, fact: tuple[str, str]
) -> None:
    """It is not solved, or only a model judged it, or its hidden test fails."""
    state = run(agent(**request_), *worths, solved=len(worths) == 1)
    state.hidden_passed = hidden

    result, shown = state.result(), sheet(state.result())
    words = (
        "the limit of 2 episodes is reached" if len(worths) == 2 else "episode 1 solved the task"
    )
    assert (shown.verdict.words, shown.verdict.tone) == (words, "warning")
    assert (shown.flags, result.doubt) == ((flag,), doubt)
    assert fact in facts(shown).items()
    assert sheet(state.record(step="evaluate")).flags == (flag,)


@pytest.mark.parametrize(
    ("by", "missed"), [("cases", ""), ("script", "was required"), (None, "was required")]
)
def test_a_verdict_by_script_is_flagged_and_misses_what_requires_cases(
    by: VerifiedBy | None, missed: str
) -> None:
    """Such a result is to be built on all the same, unless cases were asked for."""
    state = run(agent(environment="code"), 1.0, solved=1)
    state.hidden_passed, state.verified_by = True, by
    result = state.result()

    [noted] = [one.note for one in sheet(result).facts if one.label == "hidden test"]
    assert noted == {"cases": "apart from the code", "script": "beside the code", None: ""}[by]
    flag = "the hidden test ran beside the code, which could forge its verdict"
    assert sheet(result).flags == ((flag,) if by == "script" else ())
    assert against(REFLEXION, result, Wanted()) == ""
    assert missed in against(REFLEXION, result, Wanted(accept_any=True, required=1.0))
    assert (b"verified_by" in to_json(told_of(result))) == (by is not None)


def test_a_run_that_has_not_ended_has_no_result() -> None:
    """Only a decision that stops makes one."""
    state = agent()
    try_once(state, WRONG, seen=numbered())

    with pytest.raises(ValueError, match="has not ended"):
        state.result()
