"""The sheet of a batch: how its runs ended, what they cost, and why they failed."""

from collections import Counter

from reflection.batch.loop import Batch
from reflection.batch.result import BatchProgress, BatchResult
from reflection.sheet import Fact, Sheet, Step, Table, Tone, Verdict, table
from reflection.text import tally_words, usd

# The most common reasons are enough: many runs seldom fail for more.
ERRORS = 3


def sheet(seen: BatchProgress | BatchResult, variants: Table | None = None) -> Sheet:
    """Build the sheet of a batch, running or finished; it never shows an item's text."""
    runs = tally_words(seen.total, "run")
    spent = Fact("spent", cost_words(seen))
    others = f"{seen.failed:,} failed, {seen.cancelled:,} cancelled"
    if isinstance(seen, BatchResult):
        errors = Counter(run.error for run in seen.runs if run.error).most_common(ERRORS)
        became = f"{seen.completed:,} completed, {others}, {seen.not_started:,} not started"
        tone: Tone = "good" if seen.completed == seen.total else "warning"
        return Sheet(
            subject=runs,
            verdict=Verdict(words=seen.stop_explanation, tone=tone, stop_reason=seen.stop_reason),
            facts=(
                Fact("batch", f"{seen.total - seen.not_started:,} of {runs}"),
                Fact("runs", became),
                *(Fact("failures", error, f"{n:,}") for error, n in errors),
                spent,
            ),
            warnings=seen.warnings,
        )
    waiting = seen.total - seen.done - seen.running
    stands = f"{seen.running:,} running, {others}, {waiting:,} not started"
    ending = [Fact("ending", seen.stop_reason)] if seen.stop_reason else []
    failed = f", {seen.failed:,} failed" if seen.failed else ""
    under_way = f"{seen.done:,} of {seen.total:,} runs{failed}, {seen.running:,} running"
    tenths = range(10, 100 * seen.done // seen.total + 1, 10)
    return Sheet(
        subject=runs,
        verdict=Verdict(
            words=f"{seen.done:,} of {runs} ended",
            tone="running" if seen.running or not seen.stop_reason else "plain",
            stop_reason=None if seen.running else seen.stop_reason,
        ),
        facts=(Fact("runs", stands), *ending, spent),
        warnings=seen.warnings,
        tables=(variants,) if variants else (),
        steps=tuple(Step(words=f"{tenth} % of {runs} have ended") for tenth in tenths),
        busy=f"{under_way}, {cost_words(seen)}",
    )


def standing(batch: Batch) -> Sheet:
    """Build the sheet of a running batch, with the progress of each variant."""
    ended = Counter(run.variant for run in batch.runs)
    failed = Counter(run.variant for run in batch.runs if run.status == "failed")
    items = len(batch.request.items)
    rows = (
        (variant.name, ended[variant.name], failed[variant.name], items * variant.repeats)
        for variant in batch.request.variants
    )
    named = "variant, ended|number, failed|number, of|number"
    return sheet(batch.progress(), table("Variants", named, rows))


def cost_words(seen: BatchProgress | BatchResult) -> str:
    """Describe what a batch has spent; unknown if it is unknown for any run."""
    tokens = "tokens unknown" if seen.tokens is None else tally_words(seen.tokens, "token")
    return f"{tokens}, cost {usd(seen.cost_usd)}"
