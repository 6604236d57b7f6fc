"""The rules of the source's equations 1 to 9, over random operations on every memory."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from mull.agents.memory import (
    SHARED_BYTES,
    Action,
    EpisodicMemory,
    MemoryRuleError,
    Observation,
    ProceduralMemory,
    Reflection,
    RetroformerMemory,
    RetroformerTrajectory,
    Reward,
    SemanticMemory,
    SharedMemory,
    ShortTermMemory,
    TrainItem,
    Trajectory,
    is_done,
)
from mull.agents.request import ReflexionRequest

Operation = tuple[str, Any]
MEMORIES = (ShortTermMemory, RetroformerMemory)
CYCLES: dict[type, tuple[str, ...]] = {
    ShortTermMemory: ("action", "observation"),
    RetroformerMemory: ("action", "observation", "reward"),
}
NOTHING = {"task": "", "answer": "", "trajectory": {"items": ()}, "reward": 0.0}
TRAINED = {
    "accumulated_rewards": 0.0, "train_data": (), "best_reflect": "", "last_reflector_prompt": "",
}  # fmt: skip
EMPTY: dict[type, dict[str, Any]] = {ShortTermMemory: NOTHING, RetroformerMemory: NOTHING | TRAINED}

numbers = st.floats(-10, 10)
texts = st.text(max_size=5)
items = st.one_of(
    st.builds(Action, content=texts, step=st.integers(1, 9)),
    st.builds(Observation, content=texts, step=st.integers(1, 9)),
    st.builds(Reward, content=numbers, step=st.integers(1, 9)),
)
# Most are of the kind that is due, so that trajectories become long.
additions = st.sampled_from(["due"] * 4 + ["any"]).flatmap(
    lambda which: st.tuples(st.just(which), items)
)
reflections = st.builds(
    Reflection,
    text=st.text("ab ", min_size=1, max_size=4).filter(str.strip),
    workflow_id=st.sampled_from(["one", "two"]),
    episode=st.integers(1, 5),
)
operations = st.lists(
    st.one_of(
        additions,
        additions,
        additions,
        st.tuples(st.just("update_task"), texts),
        st.tuples(st.just("set_answer"), texts),
        st.tuples(st.just("set_reward"), numbers),
        st.tuples(st.just("clear_episode"), st.none()),
        st.tuples(st.just("reset"), st.none()),
        st.tuples(
            st.just("add_train_data"),
            st.builds(TrainItem, prompt=texts, reflection=texts, rewards=numbers),
        ),
        st.tuples(st.sampled_from(["best_reflect", "last_reflector_prompt"]), texts),
        st.tuples(st.just("accumulated_rewards"), numbers),
    ),
    max_size=25,
)
kinds = pytest.mark.parametrize("kind", MEMORIES)


def due(memory: ShortTermMemory) -> str:
    """Name the kind of item that is due, by the source's equations 6 and 8."""
    cycle = CYCLES[type(memory)]
    found = memory.trajectory.items
    return cycle[(cycle.index(found[-1].kind) + 1) % len(cycle)] if found else cycle[0]


def item_of(kind: str, given: Any) -> Any:
    """Make an item of a kind, with the number or the text of another one."""
    text = str(given.content)
    if kind == "reward":
        return Reward(content=float(len(text)), step=given.step)
    return (Action if kind == "action" else Observation)(content=text, step=given.step)


def applied(memory: ShortTermMemory, operation: Operation) -> ShortTermMemory:
    """Apply an operation. Raises MemoryRuleError where a rule forbids it."""
    name, given_ = operation
    if name in {"due", "any"}:
        return memory.add_to_trajectory(item_of(due(memory), given_) if name == "due" else given_)
    if not hasattr(memory, name):
        return memory
    if name in type(memory).model_fields:
        # What training sets, one attribute each.
        return memory.model_copy(update={name: given_})
    made: ShortTermMemory = getattr(memory, name)(*([] if given_ is None else [given_]))
    return made


def lives(
    kind: type[ShortTermMemory], done: Sequence[Operation]
) -> Iterator[tuple[ShortTermMemory, Operation, ShortTermMemory | None]]:
    """Yield the memory before each operation and after it; None where a rule forbade it."""
    memory = kind()
    for operation in done:
        after: ShortTermMemory | None
        try:
            after = applied(memory, operation)
        except MemoryRuleError:
            after = None
        yield memory, operation, after
        memory = after or memory


def last_of(kind: type[ShortTermMemory], done: Sequence[Operation]) -> ShortTermMemory:
    """Return the memory after all operations."""
    memory = kind()
    for before, _, after in lives(kind, done):
        memory = after or before
    return memory


@kinds
@given(done=operations)
def test_reset_empties_every_attribute(kind: type[ShortTermMemory], done: list[Operation]) -> None:
    """Equation 1: whatever was done before, nothing is left."""
    memory = last_of(kind, done)

    assert memory.reset().model_dump() == EMPTY[kind]
    assert memory.update_task("next").model_dump() == EMPTY[kind] | {"task": "next"}


@kinds
@given(done=operations)
def test_clearing_an_episode_leaves_the_task(
    kind: type[ShortTermMemory], done: list[Operation]
) -> None:
    """Answer, trajectory and reward are gone, an action is due; all else is as it was."""
    memory = last_of(kind, done)

    gone = {name: EMPTY[kind][name] for name in ("answer", "trajectory", "reward")}
    assert memory.clear_episode().model_dump() == memory.model_dump() | gone
    assert due(memory.clear_episode()) == "action"


@given(
    parts=st.lists(
        st.sampled_from(["[answer]", "[", "]", "answer", "[Answer]", "[answer", " ", "\n", "42"])
    )
)
def test_done_is_what_contains_the_marker(parts: list[str]) -> None:
    """Equation 2: the eight characters in this order and case, anywhere, and nothing else."""
    content = "".join(parts)
    windows = [content[at : at + 8] for at in range(len(content))]

    assert is_done(Action(content=content, step=1)) == ("[answer]" in windows)


@pytest.mark.parametrize(
    ("content", "done"),
    [
        ("[answer]", True),
        ("[answer] 42", True),
        ("Thought: I know. [answer]: 42", True),
        ("[answer]42[/answer]", True),
        ("return d[answer]", True),
        ("[Answer] 42", False),
        ("[ answer ] 42", False),
        ("[/answer]", False),
        ("answer: 42", False),
        ("", False),
    ],
)
def test_what_is_an_answer(content: str, *, done: bool) -> None:
    """Equation 2, by hand."""
    assert is_done(Action(content=content, step=1)) is done


@given(done=st.lists(st.tuples(st.sampled_from(["add", "remember", "delete_oldest"]), reflections)))
def test_at_most_three_reflections_are_held(done: list[tuple[str, Reflection]]) -> None:
    """Equation 3: `remember` drops the oldest of three first, and order is that of adding."""
    memory, expected = SemanticMemory(), list[Reflection]()
    for name, reflection in done:
        if name == "delete_oldest":
            memory, expected = memory.delete_oldest(), expected[1:]
        elif name == "remember":
            memory, expected = memory.remember(reflection), [*expected, reflection][-3:]
        elif len(expected) < 3:
            memory, expected = memory.add(reflection), [*expected, reflection]

        assert list(memory.reflections) == expected
        assert len(memory.reflections) <= 3
        assert SemanticMemory.model_validate_json(memory.model_dump_json()) == memory


@given(held=st.lists(reflections, max_size=3), reflection=reflections)
def test_adding_needs_fewer_than_three_reflections(
    held: list[Reflection], reflection: Reflection
) -> None:
    """Equation 4: the fourth is refused, and the memory stays as it was."""
    memory = SemanticMemory(reflections=tuple(held))
    if len(held) < 3:
        assert memory.add(reflection).reflections == (*held, reflection)
    else:
        with pytest.raises(MemoryRuleError, match="3 reflections are held"):
            memory.add(reflection)
    assert memory.reflections == tuple(held)


@kinds
@given(done=operations)
def test_a_trajectory_goes_in_turn(kind: type[ShortTermMemory], done: list[Operation]) -> None:
    """Equations 5 and 7: at every moment item i is of the kind that i has in the cycle."""
    cycle = CYCLES[kind]
    for _, _, after in lives(kind, done):
        if after is not None:
            found = [item.kind for item in after.trajectory.items]
            assert found == [cycle[at % len(cycle)] for at in range(len(found))]


@kinds
@given(done=operations)
def test_adding_appends_one_item_of_the_kind_that_is_due(
    kind: type[ShortTermMemory], done: list[Operation]
) -> None:
    """Equations 6 and 8: one more, the last is the new one, the others stay; or it is refused."""
    for before, (name, given_), after in lives(kind, done):
        if name not in {"due", "any"}:
            continue
        item = item_of(due(before), given_) if name == "due" else given_
        if item.kind != due(before):
            assert after is None
        else:
            assert after is not None
            assert after.trajectory.items == (*before.trajectory.items, item)
            assert after.model_copy(update={"trajectory": before.trajectory}) == before


@given(done=operations)
def test_train_data_has_at_most_two_items(done: list[Operation]) -> None:
    """Equation 9: a third one is refused, and the two stay."""
    for before, (name, given_), after in lives(RetroformerMemory, done):
        assert isinstance(before, RetroformerMemory)
        if name == "add_train_data" and len(before.train_data) < 2:
            assert isinstance(after, RetroformerMemory)
            assert after.train_data == (*before.train_data, given_)
        elif name == "add_train_data":
            assert after is None
        assert len(before.train_data) <= 2


@kinds
@given(done=operations)
def test_no_operation_changes_a_memory_that_is_held(
    kind: type[ShortTermMemory], done: list[Operation]
) -> None:
    """A memory is a value, so that a trial can work on a copy of it."""
    for before, operation, _ in lives(kind, done):
        written = before.model_dump_json()
        with suppress(MemoryRuleError):
            applied(before, operation)
        assert before.model_dump_json() == written


@kinds
@given(done=operations)
def test_a_memory_is_read_back_from_json(
    kind: type[ShortTermMemory], done: list[Operation]
) -> None:
    """What is written is read as the same value, of the same types."""
    memory = last_of(kind, done)

    read = kind.model_validate_json(memory.model_dump_json())
    assert read == memory
    assert type(read.trajectory) is type(kind().trajectory)


@kinds
@given(done=operations, at=st.integers(0, 30), item=items)
def test_a_trajectory_out_of_turn_is_not_read(
    kind: type[ShortTermMemory], done: list[Operation], at: int, item: Any
) -> None:
    """From JSON, with another item at any place, only what goes in turn is read."""
    found = json.loads(last_of(kind, done).model_dump_json())
    at = min(at, len(found["trajectory"]["items"]))
    found["trajectory"]["items"].insert(at, item.model_dump())
    cycle = CYCLES[kind]
    told = [one["kind"] for one in found["trajectory"]["items"]]

    if told == [cycle[at % len(cycle)] for at in range(len(told))]:
        kind.model_validate_json(json.dumps(found))
    else:
        with pytest.raises(ValidationError, match="out of turn"):
            kind.model_validate_json(json.dumps(found))


ONE = {"text": "I should look first."}
RATED = {"prompt": "p", "reflection": "r", "rewards": 0.0}
SHOWN = {"task": "Count.", "trajectory": {"items": []}}
HOW = {
    "episode_limit": 5, "step_limit": 15, "allowed_actions": ["go"],
    "planner_instructions": "Go.", "reflector_instructions": "Think.",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "given_", "named"),
    [
        (SemanticMemory, {"reflections": [ONE] * 4}, "reflections"),
        (SemanticMemory, {"reflections": [{"text": " "}]}, "text"),
        (RetroformerMemory, {"train_data": [RATED] * 3}, "train_data"),
        (EpisodicMemory, {"planner_examples": [SHOWN]}, "reflector_examples"),
        (EpisodicMemory, {"planner_examples": [], "reflector_examples": []}, "planner_examples"),
        (ProceduralMemory, HOW | {"episode_limit": 0}, "episode_limit"),
        (ProceduralMemory, HOW | {"step_limit": 0}, "step_limit"),
        (ProceduralMemory, HOW | {"allowed_actions": []}, "allowed_actions"),
        (ProceduralMemory, HOW | {"planner_instructions": " "}, "planner_instructions"),
        (ProceduralMemory, HOW | {"reflector_instructions": ""}, "reflector_instructions"),
        (SharedMemory, {"scopes": {"a": {"reflections": [ONE] * 4}}}, "reflections"),
    ],
)
def test_a_memory_that_breaks_a_rule_is_not_read(
    kind: type[BaseModel], given_: dict[str, Any], named: str
) -> None:
    """Four reflections, three of train_data, no examples, no limit: refused, by name."""
    with pytest.raises(ValidationError, match=named):
        kind.model_validate_json(json.dumps(given_))


def test_a_trajectory_of_the_other_agent_is_not_read() -> None:
    """Rewards belong to Retroformer's trajectory, where they are due after each observation."""
    step = (Action(content="a", step=1), Observation(content="o", step=1))
    rewarded = RetroformerTrajectory(items=(*step, Reward(content=1, step=1)))
    two = Trajectory(items=(*step, *step))

    for kind, trajectory in (
        (ShortTermMemory, rewarded.model_dump()),
        (ShortTermMemory, rewarded),
        (RetroformerMemory, two.model_dump()),
    ):
        with pytest.raises(ValidationError, match="out of turn"):
            kind.model_validate({"trajectory": trajectory})
    assert RetroformerMemory(trajectory=rewarded).trajectory is rewarded


def test_the_memories_have_the_attributes_of_the_source() -> None:
    """Each attribute of the class diagrams, under its own name."""
    assert set(RetroformerMemory.model_fields) == set(EMPTY[RetroformerMemory])
    assert set(ShortTermMemory.model_fields) == set(EMPTY[ShortTermMemory])
    assert set(SemanticMemory.model_fields) == {"reflections"}
    assert set(EpisodicMemory.model_fields) == {"planner_examples", "reflector_examples"}
    assert set(ProceduralMemory.model_fields) == set(HOW)


@pytest.mark.parametrize(
    ("held", "asked", "holds"),
    [
        ("Look first.", "Look first.", True),
        ("Look first.", " Look\n first. ", True),
        ("Look first.", "Look firstly.", False),
        ("Look first.", "look first.", False),
    ],
)
def test_a_reflection_in_the_same_words_is_known(held: str, asked: str, *, holds: bool) -> None:
    """White space apart, the words have to be the same."""
    memory = SemanticMemory(reflections=(Reflection(text=held),))

    assert memory.holds(asked) is holds
    assert not SemanticMemory().holds(asked)


@given(
    done=st.lists(
        st.tuples(st.sampled_from(["a", "b", "a/b"]), st.one_of(st.none(), reflections)),
        max_size=30,
    )
)
def test_scopes_never_see_each_other_s_reflections(
    done: list[tuple[str, Reflection | None]],
) -> None:
    """Each scope is a semantic memory of its own; a scope is cleared alone; each is added once."""
    shared, expected, known = SharedMemory(), dict[str, list[Reflection]](), list[Reflection]()
    for scope, reflection in done:
        if reflection is None:
            shared = shared.clear(scope)
            expected.pop(scope, None)
        else:
            shared = shared.remember(scope, reflection)
            if reflection not in known:
                expected[scope] = [*expected.get(scope, []), reflection][-3:]
                known.append(reflection)

        for name in ("a", "b", "a/b", "c"):
            assert list(shared.of(name).reflections) == expected.get(name, [])
        assert SharedMemory.model_validate_json(shared.model_dump_json()) == shared
    assert shared.clear().scopes == {}


def test_a_reflection_is_added_once_to_a_shared_memory() -> None:
    """Not by a second attempt, and not after it was cleared; other words of the same id are new."""
    first, second = (
        Reflection(text=text, workflow_id="nightly", episode=1) for text in ("Look.", "Listen.")
    )
    shared = SharedMemory().remember("a", first).remember("a", first)

    assert shared.of("a").reflections == (first,)
    assert shared.clear().remember("a", first).of("a").reflections == ()
    assert shared.remember("a", second).of("a").reflections == (first, second)


@pytest.mark.parametrize("letter", ["a", "\u6f22", "\U0001f600", '"', "\n"])
def test_a_shared_memory_fits_an_event(letter: str) -> None:
    """Whatever is written in it, by whatever ids; the scopes that have been idle longest go."""
    shared, text = SharedMemory(), letter * (3_900 // len(letter.encode()))
    for number in range(300):
        scope = f"{letter * 100}{number % 100}"
        origin = f"{'w' * 900}{number}"
        shared = shared.remember(scope, Reflection(text=f"-{text}-", workflow_id=origin))

    assert len(to_json(shared.scopes)) <= SHARED_BYTES
    assert len(to_json(shared)) < 2 * SHARED_BYTES
    assert shared.of(f"{letter * 100}99").reflections
    assert not shared.of(f"{letter * 100}1").reflections


def test_a_scope_that_is_used_stays() -> None:
    """To add to a scope makes it the newest."""
    shared = SharedMemory()
    for number in range(100):
        for scope in ("used", f"idle {number}"):
            text = f"{scope} {number} " + "x" * 3_000
            shared = shared.remember(scope, Reflection(text=text, workflow_id=scope))

    assert len(shared.of("used").reflections) == 3
    assert not shared.of("idle 0").reflections


ASKED = st.fixed_dictionaries(
    {
        "environment": st.sampled_from(["code", "a", "agent"]),
        "task": st.sampled_from(["1", "*", "a", "a/1", "code"]),
        "scope": st.sampled_from(["task", "environment", "agent"]),
    }
)
SHARE = {"task": ("environment", "task"), "environment": ("environment",), "agent": ()}


@given(one=ASKED, other=ASKED)
def test_the_key_of_a_scope_names_it_alone(one: dict[str, str], other: dict[str, str]) -> None:
    """Two runs share a key just where they ask for the same of the same."""
    keys = [ReflexionRequest.model_validate(asked).scope_key for asked in (one, other)]
    wanted = [[asked[name] for name in SHARE[asked["scope"]]] for asked in (one, other)]

    assert (keys[0] == keys[1]) == (wanted[0] == wanted[1])


def test_another_seed_and_another_file_are_other_tasks() -> None:
    """By default a puzzle of another seed, or a task of the same name elsewhere, has its own."""
    of: dict[str, object] = {"environment": "puzzles", "task": "1"}
    asked: list[dict[str, object]] = [
        of, of | {"environment_seed": 7}, of | {"tasks": "/srv/a.jsonl"},
        of | {"tasks": "/srv/b.jsonl"}, of | {"docs": "/srv"},
    ]  # fmt: skip

    keys = [ReflexionRequest.model_validate(one).scope_key for one in asked]

    assert keys[:2] == ["puzzles/1", '["puzzles","1",7,null,null]']
    assert len({*keys}) == len(keys)
