"""A batch in Markdown, for Temporal's Web UI."""

from collections import Counter

from reflection.batch.state import Batch
from reflection.text import tally_words, usd
from reflection.words.blocks import bar
from reflection.words.markdown import aligned, fenced

HEADERS = ("variant", "ended", "failed", "of")


def batch_details(batch: Batch) -> str:
    """Show how far a batch has come, by variant; no text of an item stands in it."""
    seen = batch.progress()
    share = seen.done / seen.total
    tokens = "tokens unknown" if seen.tokens is None else f"{seen.tokens:,} tokens"
    running = f"{seen.running:,} running, " if seen.running else ""
    ended = f"**{seen.done:,} of {tally_words(seen.total, 'run')}** have ended"
    lines = [
        f"{ended}: {running}{seen.failed:,} failed, {seen.cancelled:,} cancelled.",
        f"{tokens}, cost {usd(seen.cost_usd)}.",
        fenced([bar(share, 40), "", *aligned(_rows(batch), {1, 2, 3})]),
    ]
    stopped = f"Ended by `{seen.stop_reason}`." if seen.stop_reason else ""
    return "\n\n".join(each for each in [*lines, stopped] if each)


def _rows(batch: Batch) -> list[tuple[str, ...]]:
    ended = Counter(each.variant for each in batch.runs)
    failed = Counter(each.variant for each in batch.runs if each.status == "failed")
    items = len(batch.request.items)
    rows = [
        (each.name, ended[each.name], failed[each.name], items * each.repeats)
        for each in batch.request.variants
    ]
    return [HEADERS, *((name, *(f"{count:,}" for count in counts)) for name, *counts in rows)]
