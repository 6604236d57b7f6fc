"""The sheet of a tool-using turn, running or finished: its answer, calls and reflections."""

from collections.abc import Iterator

from mull import sheet as parts
from mull.text import claimed, revealed
from mull.turn.request import ToolTurnRequest
from mull.turn.result import Decision, ToolTurnResult

UNANSWERED = "the turn ended before an answer"
MOST_WORDS = 2_000
FORCED = "the answer was forced: no step or tool call was left"
TONES: dict[str, parts.Tone] = {"ok": "good", "denied": "warning", "asking": "running"}


def sheet(seen: ToolTurnResult, request: ToolTurnRequest | None = None) -> parts.Sheet:
    """Build the sheet of a turn."""
    del request  # for the signature that every loop's sheet has
    content = seen.answer or seen.so_far
    waiting = f"waits for a person's word on call {', '.join(map(str, seen.asking))}"
    title = "answer" if seen.answer is not None else "what the turn has"
    return parts.run_sheet(
        seen,
        subject=seen.message,
        doing=waiting if seen.asking else seen.step,
        answer=parts.Text(title=title, content=content, kind="markdown", folded=False)
        if content
        else None,
        facts=_facts(seen),
        flags=parts.said(
            seen.stop_reason and seen.answer is None and UNANSWERED,
            seen.stop_reason and seen.forced and FORCED,
        ),
        tables=[_calls(seen), _reflections(seen)],
        texts=tuple(
            parts.Text(
                title=f"call {call.index + 1}",
                content=call.content,
                note=revealed(call.words[:MOST_WORDS]),
            )
            for call in seen.calls
            if call.content
        ),
        decisions=parts.decision_table(Decision, seen.decisions),
        steps=tuple(_steps(seen)),
    )


def _facts(seen: ToolTurnResult) -> list[parts.Fact]:
    used, thinking = seen.budget, seen.thinking
    ceiling = f"about {thinking.tokens:,} tokens" if thinking and thinking.tokens else ""
    reflected = seen.last_reflection
    waited = f"{used.waited_s:.0f} s for a person" if used.waited_s else ""
    left = "" if seen.stop_reason else f"{used.remaining_s:.1f} s"
    return [
        parts.Fact("steps", f"{used.steps_used} of {used.steps_max}"),
        parts.Fact("tool calls", f"{used.tool_calls_used} of {used.tool_calls_max}"),
        parts.Fact("reflections", f"{used.reflections_used} of {used.reflections_max}"),
        parts.Fact("time left", left, tone="running"),
        parts.Fact("waited", waited),
        parts.Fact("largest context", f"{used.context_tokens_used:,} tokens"),
        parts.Fact("thinking", thinking.level if thinking else "off", ceiling),
        parts.Fact("last reflection", reflected.reflection if reflected else ""),
    ]


def _calls(seen: ToolTurnResult) -> parts.Table:
    rows = [
        (
            call.index + 1,
            call.step,
            revealed(call.words[:MOST_WORDS]),
            call.status if call.record_of is None else f"as call {call.record_of + 1}",
            claimed(call.approval.author) if call.approval else None,
            call.seconds,
        )
        for call in seen.calls
    ]
    names = "#|number, step|number, call, status, by|extra, s|number|extra"
    tones = tuple(TONES.get(call.status, "bad") for call in seen.calls)
    return parts.table("Tool calls", names, rows, tones=tones, newest=True, timeline=True)


def _reflections(seen: ToolTurnResult) -> parts.Table:
    rows = [
        (
            made.step,
            made.outcome,
            made.because,
            " ".join(filter(None, (made.reflection, made.error))),
        )
        for made in seen.reflections
    ]
    names = "step|number, outcome, because|extra, reflection"
    return parts.table("Reflections", names, rows, newest=True)


def _steps(seen: ToolTurnResult) -> Iterator[parts.Step]:
    """Tell what each decision led to, once it is done: the next decision follows it."""
    for made in seen.decisions if seen.stop_reason else seen.decisions[:-1]:
        step, below = made.budget.steps_used, list[str]()
        if made.next == "call_tools":
            calls = [call for call in seen.calls if call.step == step]
            ends = ["ok" if one.status == "ok" else f"{one.status}, {one.content}" for one in calls]
            said = [one.approval.author if one.approval else None for one in calls]
            ends = list(map(parts.signed, ends, said))
            words = [revealed(call.words[:MOST_WORDS]) for call in calls]
            below = [f"{one}: {end}" for one, end in zip(words, ends, strict=True)]
        elif made.next == "reflect":
            below = [one.reflection for one in seen.reflections if one.step == step]
        tone: parts.Tone = "running" if made.stop else "plain"
        yield parts.Step(words=parts.reason_words(made), below=tuple(below), tone=tone)
