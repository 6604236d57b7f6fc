"""The sheet of a Reflexion run: the returns by episode, each trajectory, and the reflections."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mull import sheet as parts
from mull.agents.memory import Action
from mull.agents.request import ReflexionRequest
from mull.agents.result import Decision, Episode, ReflexionResult
from mull.text import cut_with_note, spaced, tally_words

SHOWN_BYTES = 100_000
FENCE = re.compile(r"^[ \t]*```.*\n?", re.MULTILINE)
JUDGED = "only a model judged whether an episode succeeded"
FORGEABLE = "the hidden test ran beside the code, which could forge its verdict"
RAN: dict[str | None, str] = {"cases": "apart from the code", "script": "beside the code"}
TONES: dict[bool | None, parts.Tone] = {True: "good", False: "warning", None: "plain"}


def sheet(seen: ReflexionResult, request: ReflexionRequest | None = None) -> parts.Sheet:
    """Build the sheet of a run."""
    del request  # for the signature that every loop's sheet has
    best, answer = seen.best_episode, seen.answer
    if answer is None and best is not None and best.correct:
        # A game that was won without a word of an answer: what was done is the answer.
        acted = (item for item in best.trajectory.items if isinstance(item, Action))
        answer = "\n".join(item.content for item in acted)
    elif answer is not None and seen.environment == "code":
        # One block is the code; what stands around it is for whoever reads the episode.
        parted = FENCE.split(answer)
        answer = parted[1] if len(parted) == 3 else answer
    unsolved = seen.stop_reason is not None and (best is None or not best.correct)
    return parts.run_sheet(
        seen,
        subject=f"{seen.environment}: {seen.task}",
        doing=seen.step,
        answer=None
        if answer is None
        else parts.Text(
            title="answer",
            content=answer,
            kind="code" if seen.environment == "code" else "plain",
            note=best_words(best),
            folded=False,
        ),
        facts=_facts(seen),
        flags=parts.said(
            unsolved and "the task is not solved",
            seen.hidden_passed is False and "the hidden test fails",
            seen.verified_by == "script" and FORGEABLE,
            seen.judged and JUDGED,
        ),
        charts=_charts(seen),
        tables=[_episodes(seen), _reflections(seen)],
        texts=tuple(_texts(seen)),
        decisions=parts.decision_table(Decision, seen.decisions),
        steps=tuple(_steps(seen)),
    )


def success(
    measured: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], tuple[parts.Table, ...]]:
    """Count how many tasks of a list were solved after 1 episode, after 2 and so on.

    Each has the properties of its result, `episode_count` and so on; None where it has no result,
    which is a task that is not solved.
    """
    most = max((one["episode_count"] or 0 for one in measured), default=0)
    solved = [
        sum((one["solved_after"] or number + 1) <= number for one in measured)
        for number in range(1, most + 1)
    ]
    tested = [one["hidden_passed"] for one in measured if one["hidden_passed"] is not None]
    of = len(measured)
    counts = [(tally_words(at, "episode"), n, of) for at, n in enumerate(solved, start=1)]
    if tested:
        counts.append(("hidden tests", sum(tested), len(tested)))
    if scripts := sum(one.get("verified_by") == "script" for one in measured):
        counts.append(("of them beside the code", scripts, len(tested)))
    judged = any(one["judged"] for one in measured)
    document = {
        "tasks": len(measured),
        "solved_by_episode": solved,
        "hidden_tested": len(tested),
        "hidden_passed": sum(tested),
        "judged": judged,
    }
    title = "Solved, as only a model judged" if judged else "Solved"
    rows = [(*row, row[1] / row[2]) for row in counts]
    return document, (parts.table(title, "after, solved|number, of|number, share|share", rows),)


def best_words(best: Episode | None) -> str:
    """Name the episode whose answer counts, with its return."""
    if best is None or best.episode_return is None:
        return ""
    return f"episode {best.number}, return {best.episode_return:g}"


def _facts(seen: ReflexionResult) -> list[parts.Fact]:
    facts = [
        parts.Fact("episodes", f"{len(seen.episodes)} of {seen.episode_limit}"),
        parts.Fact("best", best_words(seen.best_episode) or "none yet"),
        parts.Fact("evaluated by", "a model's judgement" if seen.judged else seen.environment),
        parts.Fact("reflections held", str(len(seen.reflections))),
    ]
    if seen.hidden_passed is not None:
        passed, where = "passed" if seen.hidden_passed else "failed", RAN.get(seen.verified_by, "")
        facts.append(parts.Fact("hidden test", passed, where))
    if seen.best_episode is not None:
        found = seen.best_episode.metrics.items()
        facts += [parts.Fact(name, f"{value:.3g}") for name, value in found]
    return facts


def _charts(seen: ReflexionResult) -> tuple[parts.Chart, ...]:
    """Draw the returns as shares of the largest one, or of 1."""
    returns = [episode.episode_return for episode in seen.episodes]
    known = [worth for worth in returns if worth is not None]
    if not known:
        return ()
    most = max(1.0, *known)
    curve = parts.Curve(
        name="return" if most == 1 else f"return / {most:g}",
        points=tuple(None if worth is None else max(0.0, worth / most) for worth in returns),
        labels=tuple("none" if worth is None else f"{worth:g}" for worth in returns),
    )
    gap = "an episode that was cut short"
    return (parts.Chart(title="Returns", axis="episode", curves=(curve,), gap=gap),)


def _episodes(seen: ReflexionResult) -> parts.Table:
    rows = [
        (f"{one.number} best" if one.number == seen.best else str(one.number), one)
        for one in seen.episodes
    ]
    tones = tuple(TONES[one.correct] for one in seen.episodes)
    return parts.table("Episodes", ("episode", Episode), rows, tones=tones, newest=True)


def _reflections(seen: ReflexionResult) -> parts.Table:
    """List what semantic memory holds; a reflection of another run says which."""
    own = {one.reflection for one in seen.episodes}
    rows = [
        (f"episode {one.episode}" if one.text in own else one.workflow_id, one.text)
        for one in seen.reflections
    ]
    return parts.table("Reflections", "of, reflection", rows, newest=True)


def _texts(seen: ReflexionResult) -> Iterator[parts.Text]:
    yield parts.Text(title="task", content=seen.task_text)
    for one in seen.episodes:
        # Observations as they came: quoting is for prompts.
        steps = (f"{it.kind.capitalize()} {it.step}: {it.content}" for it in one.trajectory.items)
        content = cut_with_note("\n".join(steps), SHOWN_BYTES)
        if one.feedback:
            content += f"\n\nEvaluation: {one.feedback}"
        if one.reflection:
            content += f"\n\nReflection{_scores(one)}: {one.reflection}"
        note = f"{tally_words(one.steps, 'step')}, {spaced(one.ended)}"
        yield parts.Text(title=f"episode {one.number}", content=content, note=note)


def _scores(one: Episode) -> str:
    """Say how the reflection was chosen, where a reward model did that."""
    scores = ", ".join("none" if score is None else f"{score:.2f}" for score in one.scores)
    return f" (the best of {scores})" if scores else ""


def _steps(seen: ReflexionResult) -> Iterator[parts.Step]:
    """Tell what came of each episode, with its reflection once there is one."""
    for one in seen.episodes:
        worth = "cut short" if one.episode_return is None else f"return {one.episode_return:g}"
        after = [made.next for made in seen.decisions if made.episode == one.number]
        reflected = any(step != "reflect" for step in after)
        if not reflected and seen.stop_reason is None:
            return
        below = parts.said(one.feedback, one.reflection and f"{one.reflection}{_scores(one)}")
        yield parts.Step(
            words=f"episode {one.number}: {worth}, {tally_words(one.steps, 'step')}",
            below=below,
            tone=TONES[one.correct],
        )
