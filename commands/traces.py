"""`traces`: the spans of a run, rebuilt from its history."""

import json
import logging
import os
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

from commands.command import Exit, Id, Json, fail, flag, tell, with_client
from commands.found import reach
from mull.telemetry import ENDPOINT
from mull.text import tally_words, terminal_safe

if TYPE_CHECKING:
    from temporalio.client import Client

    from spans import Rebuilt

Send = Annotated[bool, flag("--send", help=f"Send the spans to {ENDPOINT}.")]


def traces(run: Id, send: Send = False, as_json: Json = False) -> None:
    """Rebuild a run's spans from its history, to show or send them.

    It also has what a killed worker had not sent yet. Each span has the id that the worker gave
    it, so a receiver that keeps one span for each id gets no duplicates.

    Example: mull traces ask-is-91-prime-7f3a91c2 --send
    """
    if send and not os.environ.get(ENDPOINT):
        fail(f"--send: set {ENDPOINT} to where the spans should go.")
    with_client(lambda client: _traces(client, run, send, as_json))


async def _traces(client: "Client", run: str, sends: bool, as_json: bool) -> Exit:
    found = await reach(client, run)
    # As in every command, a run that can't be read here is an error.
    await found.request()
    # This imports the worker, with every workflow: it takes a second.
    import spans
    from mull import telemetry

    # Errors are printed below, once.
    for chatty in ("temporalio", "opentelemetry"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    exporters = telemetry.exporters(None) if sends else []
    counts, ended, before = defaultdict[str, int](int), Exit.DONE, '{"runs": ['
    first = await spans.first_of(client, run, found.description.run_id)
    async for rebuilt in spans.Rebuilder(client).whole(run, first):
        if rebuilt.error:
            ended = Exit.FAILED
            tell(f"{rebuilt.workflow_id} {rebuilt.run_id}: {rebuilt.error}")
        counts["executions"] += 1
        counts["spans"] += len(rebuilt.spans)
        counts["still_open"] += len(rebuilt.still_open)
        counts["lost"] += sum(rebuilt.lost.values())
        try:
            await spans.send(exporters, rebuilt.spans)
        except spans.NotTakenError:
            said = f"the receiver at {ENDPOINT} took no spans of {rebuilt.workflow_id}."
            fail(f"{said} Check that it runs, then send again.", Exit.FAILED)
        if as_json:
            # At once, since all runs of a large batch may be more than memory holds.
            sys.stdout.write(before + json.dumps(_document(rebuilt)))
            before = ", "
        elif not sends:
            sys.stdout.write("\n".join([*_tree(rebuilt), ""]))
    if as_json:
        sys.stdout.write(f"], {json.dumps({'sent': sends, **counts})[1:]}\n")
    words = f"{tally_words(counts['spans'], 'span')} of {tally_words(counts['executions'], 'run')}"
    tell(
        f"{'sent' if sends else 'rebuilt'} {words}; {counts['still_open']:,} still open;"
        f" {tally_words(counts['lost'], 'attempt')} of calls lost: no history has them"
    )
    return ended


def _document(rebuilt: "Rebuilt") -> dict[str, Any]:
    """Describe what is rebuilt of one history; spans are as the OpenTelemetry SDK writes them."""
    known = rebuilt._asdict()
    for name in ("spans", "still_open"):
        known[name] = [json.loads(span.to_json()) for span in known[name]]
    return known


def _tree(rebuilt: "Rebuilt") -> list[str]:
    """List the spans of one history, each below its parent and in the order in which they began."""
    every = {span.context.span_id: span for span in (*rebuilt.spans, *rebuilt.still_open)}
    below: dict[int, list[Any]] = defaultdict(list)
    for span in sorted(every.values(), key=lambda span: span.start_time or 0):
        above = span.parent.span_id if span.parent else 0
        below[above if above in every else 0].append(span)
    traced = {f", trace {span.context.trace_id:032x}" for span in every.values()}
    lines = [f"{rebuilt.workflow_id}, run {rebuilt.run_id}{''.join(traced)}"]

    def add(above: int, indent: str) -> None:
        for span in below[above]:
            took = f"{(span.end_time - span.start_time) / 1e9:.3f} s"
            words = [
                terminal_safe(span.name, 200),
                "still open" if span in rebuilt.still_open else took,
                f"{span.context.span_id:016x}"[:8],
                str(span.attributes.get("error.type", "")),
            ]
            lines.append(indent + "  ".join(words).rstrip())
            add(span.context.span_id, indent + "  ")

    add(0, "  ")
    return [*lines, *(f"  lost: {count} of {what}" for what, count in rebuilt.lost.items())]
