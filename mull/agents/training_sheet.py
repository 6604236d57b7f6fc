"""The sheet of a training: what was rated and gained, each stage's curves, and what came of it."""

from collections.abc import Iterator, Sequence

from mull import sheet as parts
from mull.agents.training import RetroformerTrainingRequest
from mull.agents.training_result import Decision, Measured, RetroformerTrainingResult, StageResult
from mull.text import Cell, spaced, tally_words

# Of all that TRL logs, what shows whether a stage learns, by the names of its trainers.
CURVES = (
    "loss", "accuracy", "rewards/accuracies", "rewards/margins", "reward", "objective/scores",
    "objective/kl", "kl",
)  # fmt: skip
MOST_CURVES = 3


def sheet(
    seen: RetroformerTrainingResult, request: RetroformerTrainingRequest | None = None
) -> parts.Sheet:
    """Build the sheet of a training."""
    del request  # for the signature that every loop's sheet has
    # While it goes on, what was tuned is not measured yet.
    tuned = seen.tuned_reflector if seen.stop_reason else None
    return parts.run_sheet(
        seen,
        subject=f"{seen.environment}: {tally_words(seen.tasks, 'task')}, by {seen.method}",
        doing=spaced(seen.step) + (f" {seen.done:,} of {seen.of:,}" if seen.of else ""),
        awaited="rollout",
        answer=parts.Text(title="tuned reflector", content=tuned, folded=False) if tuned else None,
        facts=_facts(seen),
        flags=parts.said(seen.doubt != seen.stop_explanation and seen.stop_reason and seen.doubt),
        charts=tuple(_charts(seen)),
        tables=[_measured(seen), _stages(seen), _gains(seen)],
        decisions=parts.decision_table(Decision, seen.decisions),
        steps=tuple(
            parts.Step(words=f"{spaced(one.phase)}: {one.reason}")
            for one in seen.decisions
            if not one.stop
        ),
    )


def _facts(seen: RetroformerTrainingResult) -> list[parts.Fact]:
    facts = []
    if seen.counts is not None:
        counts = seen.counts
        left = f"{counts.equal} of equal gain, {counts.identical} of the same text"
        facts.append(parts.Fact("pairs", f"{counts.preferences} of {counts.pairs}", left))
    if trained := seen.stages.get("reward_model"):
        chance = f", {trained.tested / 2:g} by chance"
        tested = f"right on {trained.right} of {trained.tested} pairs held out{chance}"
        facts.append(parts.Fact("reward model", trained.folder, tested if trained.tested else ""))
    if seen.held_out:
        facts.append(parts.Fact("held out", f"{len(seen.held_out)} of {seen.tasks} tasks"))
    return facts


def _measured(seen: RetroformerTrainingResult) -> parts.Table:
    """Compare the untrained reflector with the tuned one, with standard errors."""

    def row(name: str, one: Measured) -> Sequence[Cell]:
        error = None if one.share_good is None else f"{one.error:.2f}"
        rollouts = one.made, one.solved, one.failed or None
        return name, *rollouts, one.reflections, one.share_good, error, one.share_helped

    on = ", held out" if seen.held_out else ""
    measured = {
        "before, other tasks": seen.others if seen.others.made else None,
        f"before{on}": seen.before if seen.before.made else None,
        f"after{on}": seen.after,
        f"control{on}": seen.control,
    }
    rows = [row(name, one) for name, one in measured.items() if one is not None]
    names = "reflector, rollouts|number, solved at once|number|extra, failed|number"
    shares = "reflections|number, good|share, error|number, solved with|share"
    return parts.table("Reflections", f"{names}, {shares}", rows)


def _stages(seen: RetroformerTrainingResult) -> parts.Table:
    rows = [(spaced(stage), one, _rate(one), _lost(one)) for stage, one in seen.stages.items()]
    heads = ("stage", StageResult, "learning rate|extra", "after a lost worker")
    return parts.table("Stages", heads, rows)


def _rate(one: StageResult) -> str:
    return f"{one.settings['learning_rate']:g}" if "learning_rate" in one.settings else ""


def _lost(one: StageResult) -> str:
    """Say what became of attempts whose worker was lost."""
    resumed = [f"resumed at step {step}" for step in one.resumed_at]
    return ", ".join([*resumed, *(["began anew"] if one.anew else [])])


def _gains(seen: RetroformerTrainingResult) -> parts.Table:
    """List the pairs with what each reflection gained, the better one first."""
    rows: list[Sequence[Cell]] = [
        (one.task, one.rollout, *sorted(one.gains, reverse=True)) for one in seen.gained
    ]
    names = "task, rollout|number, better|number, worse|number"
    return parts.table("Gains", names, rows, newest=True)


def _charts(seen: RetroformerTrainingResult) -> Iterator[parts.Chart]:
    """Draw the trainers' logs; a curve with values beyond 0 and 1 is scaled, and says so."""
    for stage, one in seen.stages.items():
        # A trainer's last line has its times alone.
        log = [point for point in one.log if not point.values.keys().isdisjoint(CURVES)]
        curves = [
            _curve(name, [point.values.get(name) for point in log])
            for name in CURVES
            if any(name in point.values for point in log)
        ]
        if curves:
            yield parts.Chart(
                title=f"Training of the {spaced(stage)}",
                axis="step",
                curves=tuple(curves[:MOST_CURVES]),
                places=tuple(str(point.step) for point in log),
                gap="a step that logged something else",
            )


def _curve(name: str, values: Sequence[float | None]) -> parts.Curve:
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    name = f"{name}, {low:.3g} to {high:.3g}"
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    else:
        name += ", scaled"
    span = high - low or 1.0
    return parts.Curve(
        name=name,
        points=tuple(None if value is None else (value - low) / span for value in values),
        labels=tuple("none" if value is None else f"{value:.3g}" for value in values),
    )
