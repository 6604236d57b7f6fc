"""The sheet of a batch: how its runs ended, what they cost, and why they failed."""

from collections import Counter

from mull.batch.loop import Batch
from mull.batch.result import BatchResult
from mull.sheet import Fact, Sheet, Step, Table, Verdict, ended_words, table
from mull.text import tally_words, usd

# The most common reasons are enough: many runs seldom fail for more.
ERRORS = 3


def sheet(seen: BatchResult, variants: Table | None = None) -> Sheet:
    """Build the sheet of a batch, running or finished; it never shows an item's text."""
    runs, spent = tally_words(seen.total, "run"), Fact("spent", cost_words(seen))
    tables = (variants,) if variants else ()
    left = f"{seen.failed:,} failed, {seen.cancelled:,} cancelled, {seen.not_started:,} not started"
    if seen.ended:
        errors = Counter(run.error for run in seen.runs if run.error)
        listed = errors.most_common(ERRORS)
        others = tally_words(len(errors) - len(listed), "more reason")
        return Sheet(
            subject=runs,
            verdict=Verdict(
                words=ended_words(seen.stop_explanation),
                tone="good" if seen.completed == seen.total else "warning",
                stop_reason=seen.stop_reason,
            ),
            facts=(
                Fact("batch", f"{seen.total - seen.not_started:,} of {runs}"),
                Fact("runs", f"{seen.completed:,} completed, {left}"),
                *(Fact("failures", error, f"{n:,}") for error, n in listed),
                *([Fact("failures", others)] if len(errors) > len(listed) else []),
                spent,
            ),
            flags=(f"not to be built on: {seen.doubt}",) if seen.doubt else (),
            warnings=seen.warnings,
            tables=tables,
        )
    running = f"{seen.running:,} {'under way' if seen.pages else 'running'}"
    came = f"{seen.pages_accepted:,} of {seen.pages:,} accepted"
    pages = [Fact("pages", came)] if seen.pages else []
    paused = [Fact("paused", "no run is started until it is resumed")] if seen.paused else []
    ending = [Fact("ending", seen.stop_reason)] if seen.stop_reason else []
    failed = f", {seen.failed:,} failed" if seen.failed else ""
    under_way = f"{'paused: ' * seen.paused}{seen.done:,} of {seen.total:,} runs{failed}, {running}"
    # With fewer than ten runs, one run may reach several tenths at once: that is one step.
    tenths = {-(-seen.total * tenth // 10) for tenth in range(1, 11)}
    shares = (100 * ended // seen.total for ended in sorted(tenths) if 0 < ended <= seen.done)
    return Sheet(
        subject=runs,
        verdict=Verdict(words=f"{seen.done:,} of {runs} ended", tone="running"),
        facts=(Fact("runs", f"{running}, {left}"), *pages, *paused, *ending, spent),
        warnings=seen.warnings,
        tables=tables,
        steps=tuple(Step(words=f"{share} % of {runs} have ended") for share in shares),
        busy=f"{under_way}, {cost_words(seen)}",
    )


def standing(batch: Batch) -> Sheet:
    """Build the sheet of a running batch, with the progress of each variant."""
    runs = batch.ended_runs.values()
    ended = Counter(run.variant for run in runs)
    failed = Counter(run.variant for run in runs if run.status == "failed")
    items = len(batch.request.items)
    rows = (
        (variant.name, ended[variant.name], failed[variant.name], items * variant.repeats)
        for variant in batch.request.variants
    )
    named = "variant, ended|number, failed|number, of|number"
    return sheet(batch.progress(), table("Variants", named, rows))


def cost_words(seen: BatchResult) -> str:
    """Describe what a batch has spent: at least what is known, where it is unknown of a run."""
    tokens, cost = tally_words(seen.tokens or seen.known_tokens, "token"), usd(seen.cost_usd)
    if seen.tokens is None:
        tokens = f"at least {tokens}" if seen.known_tokens else "tokens unknown"
    if seen.cost_usd is None and seen.known_usd:
        cost = f"at least {usd(seen.known_usd)}"
    return f"{tokens}, cost {cost}"
