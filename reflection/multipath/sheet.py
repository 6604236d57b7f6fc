"""The sheet of an agent run, running or finished: its path, drafts with K or E, and tests.

K, E and tests of all drafts have one table each; those of the draft that is kept come first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from reflection.multipath.request import MultiPathRequest
from reflection.multipath.result import (
    Decision,
    Draft,
    MultiPathResult,
    Progress,
    Step,
    best_of,
    is_open,
)
from reflection.multipath.state import Node
from reflection.multipath.suite import TestOutcome, module_hint
from reflection.sheet import (
    Cell,
    Chart,
    Curve,
    Fact,
    Sheet,
    Table,
    Text,
    Tone,
    Verdict,
    Waiting,
    columns,
    draft_words,
    made_words,
    model_fact,
    moment_words,
    origin_words,
    reason_words,
    usage_table,
)
from reflection.sheet import Step as Line
from reflection.text import spent_words, tally_words

Seen = Progress | MultiPathResult
Kind = Literal["plain", "markdown", "code"]

STEP_WORDS: Mapping[Step, str] = {
    "starting": "Starting",
    "retrieve": "Retrieving passages",
    "route": "Choosing the path",
    "generate_report": "Writing the report",
    "reflect_on_report": "Reflecting on the report",
    "generate_code": "Writing the code",
    "test_code": "Testing the code",
    "waiting_for_review": "Waiting for a person's review",
    "finished": "Finished",
}
GOOD = {"consistent", "passed", "accepted_by_person", "replaced_by_person"}
FAILED = {"unrouted", "generation_failed", "reflection_failed", "test_failed"}
CHECKS = {"reflect_on_report", "test_code"}
END = "end"
CUT = "at the model's limit (--max-output-tokens), or at the size limit of a result"
CRITIQUES_BELOW = 3


def sheet(
    seen: Seen, decisions: Sequence[Decision] = (), request: MultiPathRequest | None = None
) -> Sheet:
    """Build the sheet of a run; while it runs, its decisions come from a separate query."""
    del request  # for the signature that every loop's sheet has
    kept, busy, waiting = kept_of(seen), "", None
    if isinstance(seen, MultiPathResult):
        decisions, why, output = seen.decisions, seen.stop_explanation, seen.output
    else:
        why, output = decisions[-1].reason if decisions else "", kept.text if kept else None
        if seen.stop_reason is None:
            flight = f", {tally_words(seen.in_flight, 'call')} in flight" if seen.in_flight else ""
            busy = why = f"{STEP_WORDS[seen.step]}{flight}"
        if decisions and decisions[-1].waits_for_review:
            waiting = Waiting(until=seen.review_until)
    answer = None
    if output is not None:
        kind = "code" if seen.mode == "code" else "markdown"
        note, title = f"{_name(kept)}: {_found(kept)}" if kept else "", thing_words(seen.mode)
        answer = Text(title=title, content=output, kind=kind, note=note, folded=False)
    tone: Tone = "running"
    if seen.stop_reason is not None:
        failed = output is None or seen.stop_reason in FAILED
        tone = "bad" if failed else "good" if seen.stop_reason in GOOD else "warning"
    return Sheet(
        subject=seen.prompt,
        verdict=Verdict(words=why, tone=tone, stop_reason=seen.stop_reason),
        answer=answer,
        facts=_facts(seen, kept),
        flags=tuple(_flags(seen, kept)),
        warnings=seen.warnings,
        charts=_walk(decisions),
        tables=tuple(_tables(seen, kept)),
        texts=tuple(_texts(seen, kept)),
        decisions=_decisions(decisions) if decisions else None,
        steps=tuple(_steps(seen, decisions)),
        busy=busy,
        waiting=waiting,
    )


def kept_of(seen: Seen) -> Draft | None:
    """Return the draft that is the result, or would be now."""
    if isinstance(seen, Progress):
        return best_of(seen.drafts)
    return next((draft for draft in seen.drafts if draft.index == seen.kept), None)


def thing_words(mode: str | None) -> str:
    """Name the output of a path."""
    return {"research": "report", "code": "code"}.get(mode or "", "output")


def still_open(seen: Seen) -> str:
    """Say what is still open in a result; empty if nothing is, or if there is none."""
    kept = kept_of(seen)
    tests = len(seen.suite.cases) if seen.suite else 0
    said = isinstance(seen, MultiPathResult) and not seen.open
    if kept is None or said or not is_open(kept, len(seen.quarantined), tests):
        return ""
    if kept.critiques:
        remain = "remains" if len(kept.critiques) == 1 else "remain"
        return f"{tally_words(len(kept.critiques), 'critique')} {remain}"
    if kept.error is not None:
        return f"a test still fails: {kept.error.message}"
    if seen.quarantined:
        return f"{len(seen.quarantined)} of its tests are quarantined: no draft passed them"
    return (
        f"{'the code was not tested' if kept.mode == 'code' else 'the report was not reflected on'}"
    )


def _name(draft: Draft) -> str:
    return f"{draft_words(draft.index)}, {origin_words(draft.origin, draft.author)}"


def _counts(passed: int | None, total: int | None) -> str | None:
    if passed is None or total is None:
        return None
    return f"{passed:,} of {tally_words(total, 'test')} {'passes' if total == 1 else 'pass'}"


def _found(draft: Draft) -> str:
    """Describe a draft's K or E in a few words."""
    if draft.mode == "research":
        if draft.critiques is None:
            return "not reflected on"
        return tally_words(len(draft.critiques), "critique") if draft.critiques else "consistent"
    if draft.report is None:
        return "not tested"
    counted = _counts(draft.report.passed, draft.report.total)
    if counted is not None:
        return counted
    if draft.report.status == "ok":
        return "a test fails" if draft.error else "passes"
    return f"no test result ({draft.report.status})"


def _facts(seen: Seen, kept: Draft | None) -> tuple[Fact, ...]:
    most = "" if seen.max_revisions is None else f" of at most {seen.max_revisions}"
    facts = []
    if seen.routing is not None:
        facts.append(Fact(label="path", value=seen.routing.words))
    facts.append(Fact(label="drafts", value=f"{seen.revisions}{most}"))
    if kept is not None:
        still = still_open(seen)
        value = f"{draft_words(kept.index)}: {_found(kept)}"
        facts.append(Fact(label="kept", value=value, tone="warning" if still else "good"))
        facts.append(Fact(label="open", value=still or "no", tone="warning" if still else "plain"))
    if seen.suite is not None:
        facts.append(Fact(label="tests", value=seen.suite.words))
    facts.append(Fact(label="spent", value=spent_words(seen.usage)))
    if seen.model:
        facts.append(model_fact(seen.model, "texts"))
    return tuple(facts)


def _flags(seen: Seen, kept: Draft | None) -> list[str]:
    """List what a reader must know: what is open, missing, cut or not counted."""
    if kept is None and seen.stop_reason == "unrouted":
        return ["no path could be chosen: give --mode research or --mode code"]
    if kept is None:
        return [f"there is no {thing_words(seen.mode)}"] if seen.stop_reason else []
    code, still = kept.mode == "code", still_open(seen) if seen.stop_reason else ""
    better = f"{draft_words(kept.index)} is given: {_found(kept)}, and no later one is better"
    unread = f"a person's text was not {'tested' if code else 'reflected on'}"
    tests = tally_words(len(seen.quarantined), "test")
    aside = f"{tests} written by the model, passed by no draft: not counted, please check"
    forged = "the tests ran beside the code, which could have forged their verdict (forgeable)"
    known = (
        still and f"the result is open: {still}",
        seen.stop_reason and code and kept is not seen.drafts[-1] and better,
        kept.cut and f"the text was cut: {CUT}",
        kept.origin == "replaced" and unread,
        module_hint(kept.error),
        seen.quarantined and aside,
        not code
        and not seen.sources
        and "no source was found: no document backs what the report says",
        kept.report and kept.report.forgeable and forged,
    )
    return [flag for flag in known if flag]


def _walk(decisions: Sequence[Decision]) -> tuple[Chart, ...]:
    """Draw the nodes that a run went through, and where it found something to fix."""
    walked: list[tuple[str, Decision]] = [(made.after, made) for made in decisions if made.after]
    if not walked:
        return ()
    if decisions[-1].stop:
        walked.append((END, decisions[-1]))
    visited, first = {lane for lane, _ in walked}, walked[0][1].at
    lanes = [lane for lane in (*get_args(Node), END) if lane in visited]
    heights = {lane: 1 - place / max(1, len(lanes) - 1) for place, lane in enumerate(lanes)}
    points = tuple(heights[lane] for lane, _ in walked)
    mend = tuple(heights[lane] if _mends(lane, made) else None for lane, made in walked)
    labels = tuple(_label(lane, made) for lane, made in walked)
    curves = [Curve(name="the walk", points=points, labels=labels)]
    if any(height is not None for height in mend):
        curves.append(Curve(name="found something to fix", points=mend, labels=labels))
    chart = Chart(
        title="From node to node",
        axis="decisions",
        curves=tuple(curves),
        levels=tuple(reversed(lanes)),
        places=tuple(
            f"+{(made.at - first).total_seconds():,.1f} s" if first and made.at else ""
            for _, made in walked
        ),
    )
    return (chart,)


def _mends(lane: str | None, decision: Decision) -> bool:
    return lane in CHECKS and bool(decision.critiques or decision.error)


def _label(lane: str, decision: Decision) -> str:
    """Write what a decision counted: the draft, its critiques, the tests that pass, or the end."""
    match lane:
        case "generate_report" | "generate_code":
            return f"R {decision.revisions}"
        case "reflect_on_report" if decision.critiques is not None:
            return f"K {decision.critiques}"
        case "test_code" if decision.total is not None:
            return f"{decision.passed}/{decision.total}"
        case "end":
            return decision.stop_reason or ""
    return ""


def _table(title: str, names: str, rows: Iterable[tuple[Cell, ...]], **more: Any) -> Table:
    return Table(title=title, columns=columns(*names.split(", ")), rows=tuple(rows), **more)


def _tables(seen: Seen, kept: Draft | None) -> list[Table]:
    ordered = sorted(seen.drafts, key=lambda draft: draft is not kept)
    drafts = (
        (
            f"{draft.index + 1} kept" if draft is kept else str(draft.index + 1),
            origin_words(draft.origin, draft.author),
            _found(draft),
            len(draft.text),
            draft.model,
        )
        for draft in seen.drafts
    )
    critiques = (
        (
            draft.index + 1,
            found.aspect,
            None if found.cited is None else f"[{found.cited}]",
            found.sentence,
            found.advice,
            found.author,
        )
        for draft in ordered
        for found in draft.critiques or ()
    )
    errors = (
        (draft.index + 1, error.message, error.test, error.expected, error.got, error.status)
        for draft in ordered
        if (error := draft.error)
    )
    sources = ((f"[{source.number}]", source.passage.place) for source in seen.sources)
    ideas = ((draft.index + 1, idea) for draft in ordered for idea in draft.suggestions)
    tones = tuple("good" if draft is kept else "plain" for draft in seen.drafts)
    about = "draft|number, about, cited|extra, sentence, advice, by|extra"
    wrong = "draft|number, message, test, expected, got, status|extra"
    names = "#, origin, found, chars|number|extra, model|extra"
    tables = (
        _table("Drafts", names, drafts, tones=tones, newest=True),
        _table("Critiques (K)", about, critiques),
        _table("Errors (E)", wrong, errors),
        _tests(seen, kept),
        _table("Sources", "number, place", sources),
        _table("Ideas beyond the documents", "draft|number, idea", ideas),
    )
    return [*(table for table in tables if table.rows), usage_table(seen.usage)]


def _tests(seen: Seen, kept: Draft | None) -> Table:
    """List each test's outcome for each draft, failures first.

    Before the first outcome, list what the tests expect.
    """
    outcomes = {
        draft.index: {found.test: found for found in draft.report.outcomes}
        for draft in seen.drafts
        if draft.report and draft.report.outcomes
    }
    aside = {found.test: found for found in seen.quarantined}
    by_kept = outcomes.get(kept.index, {}) if kept else {}
    told: dict[str, list[TestOutcome]] = {}
    for by_name in (*outcomes.values(), aside):
        for name, found in by_name.items():
            told.setdefault(name, []).append(found)
    if not told:
        cases = seen.suite.cases if seen.suite else ()
        return _table("Tests", "test, expected", ((case.call, case.expected) for case in cases))
    toned: list[tuple[Tone, tuple[Cell, ...]]] = []
    for name, known in told.items():
        failed = [found.failed_words for found in known if not found.passed]
        came = (by_name.get(name) for by_name in outcomes.values())
        row = (
            f"{name} (quarantined)" if name in aside else name,
            known[-1].expected,
            *(None if one is None else "passed" if one.passed else "failed" for one in came),
            failed[-1] if failed else None,
        )
        held = by_kept.get(name, known[-1]).passed
        toned.append(("plain" if name in aside else "good" if held else "warning", row))
    toned.sort(key=lambda pair: pair[0] == "good")
    names = ", ".join(["test, expected|extra", *map(draft_words, outcomes), "last failure"])
    rows, tones = (row for _, row in toned), tuple(tone for tone, _ in toned)
    return _table("Tests", names, rows, tones=tones)


def _texts(seen: Seen, kept: Draft | None) -> list[Text]:
    """List the full texts: tracebacks, drafts, outputs, the tests and passages."""
    texts = []

    def add(title: str, content: str | None, kind: Kind = "code", **more: Any) -> None:
        if content is not None:
            texts.append(Text(title=title, content=content, kind=kind, **more))

    if kept and kept.error:
        add("traceback", kept.error.traceback, folded=False)
    for draft in seen.drafts:
        report, name = draft.report, draft_words(draft.index)
        known = (
            _found(draft),
            draft.cut and f"cut {CUT}",
            made_words(draft.model, draft.seed, draft.timestamp, draft.attempts, draft.spending),
            report and report.words,
        )
        title = f"{_name(draft)}{', kept' if draft is kept else ''}"
        kind: Kind = "code" if draft.mode == "code" else "markdown"
        add(title, draft.text, kind, note="; ".join(part for part in known if part))
        if draft is not kept and draft.error:
            add(f"traceback of {name}", draft.error.traceback)
        if report:
            add(f"the end of what {name} printed", report.output or None)
    if seen.suite and seen.suite.file:
        add(seen.suite.file.name, seen.suite.file.text)
    for source in seen.sources:
        note = f"score {source.passage.score:.2f}"
        title = f"[{source.number}] {source.passage.place}"
        add(title, source.passage.text, "plain", note=note)
    return texts


def _next(decision: Decision) -> str:
    if decision.waits_for_review:
        return "a person's review"
    if decision.stop:
        return f"{END} ({decision.stop_reason})" if decision.stop_reason else END
    return decision.next or "-"


def _decisions(decisions: Sequence[Decision]) -> Table:
    names = (
        "after, draft|number|extra, revisions (R_n)|number, critiques (K)|number|extra, "
        "tests|extra, next, because, at|extra"
    )
    rows = (
        (
            made.after,
            None if made.draft is None else made.draft + 1,
            made.revisions,
            made.critiques,
            _counts(made.passed, made.total),
            _next(made),
            reason_words(made.reason, made.asked, made.author),
            moment_words(made.at),
        )
        for made in decisions
    )
    return _table("Decisions", names, rows, newest=True)


def _steps(seen: Seen, decisions: Sequence[Decision]) -> list[Line]:
    """Write a line for each decision: the node that ended, why, what comes next, and K under it."""
    unread, steps = {draft.index: draft.critiques or () for draft in seen.drafts}, []
    for made in decisions:
        why = reason_words(made.reason, made.asked, made.author)
        if made.after == "route" and made.next is not None and seen.routing is not None:
            why = seen.routing.words
        elif made.after in CHECKS and made.draft is not None:
            counted = None if made.error is None else _counts(made.passed, made.total)
            why = f"{draft_words(made.draft)}: {f'{counted}; ' if counted else ''}{why}"
        below = []
        if made.after == "reflect_on_report" and made.draft is not None:
            # Once: a person's decision is about a draft whose critiques were shown before.
            found = unread.pop(made.draft, ())
            below = [critique.words for critique in found[:CRITIQUES_BELOW]]
            if len(found) > CRITIQUES_BELOW:
                below.append(f"and {len(found) - CRITIQUES_BELOW:,} more")
        words = f"{made.after or '-':<17}  {why}"
        whole, ends = f"{words} → {_next(made)}", made.stop or made.waits_for_review
        tone: Tone = "warning" if _mends(made.after, made) else "plain"
        short = whole if ends else words
        steps.append(Line(words=whole, short=short, tone=tone, below=tuple(below)))
    return steps
