"""The sheet of an agent run, running or finished: its path, drafts with K or E, and tests.

K, E and tests of all drafts have one table each; those of the draft that is kept come first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from mull import sheet as parts
from mull.multipath.parts import Node
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import Decision, Draft, MultiPathResult, kept_of, still_open
from mull.multipath.suite import Failure, TestOutcome, module_hint
from mull.text import Cell, claimed, tally_words

STEP_WORDS: Mapping[str, str] = {
    "starting": "Starting",
    "retrieve": "Retrieving passages",
    "route": "Choosing the path",
    "generate_report": "Writing the report",
    "reflect_on_report": "Reflecting on the report",
    "generate_code": "Writing the code",
    "test_code": "Testing the code",
    "waiting_for_review": "Waiting for a person's review",
}
CHECKS = {"reflect_on_report", "test_code"}
END = "end"
CUT = "at the model's limit (max_output_tokens), or at the size limit of a result"
CRITIQUES_BELOW = 3


def sheet(seen: MultiPathResult, request: MultiPathRequest | None = None) -> parts.Sheet:
    """Build the sheet of a run."""
    del request  # for the signature that every loop's sheet has
    kept, answer = kept_of(seen), None
    if seen.output is not None:
        answer = parts.Text(
            title=thing_words(seen.mode),
            content=seen.output,
            kind="code" if seen.mode == "code" else "markdown",
            note=f"{parts.draft_name(kept)}: {_found(kept)}" if kept else "",
            folded=False,
        )
    return parts.run_sheet(
        seen,
        subject=seen.prompt,
        doing=STEP_WORDS.get(seen.step, ""),
        answer=answer,
        facts=_facts(seen, kept),
        flags=_flags(seen, kept),
        charts=_walk(seen.decisions),
        tables=_tables(seen, kept),
        texts=tuple(_texts(seen, kept)),
        decisions=parts.decision_table(
            Decision,
            seen.decisions,
            ("tests|extra",),
            ((_counts(made.passed, made.total),) for made in seen.decisions),
        ),
        steps=tuple(_steps(seen)),
    )


def thing_words(mode: str | None) -> str:
    """Name the output of a path."""
    return {"research": "report", "code": "code"}.get(mode or "", "output")


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


def _facts(seen: MultiPathResult, kept: Draft | None) -> list[parts.Fact]:
    most = "" if seen.max_revisions is None else f" of at most {seen.max_revisions}"
    facts = [parts.Fact("path", seen.routing.words(seen.prompt))] if seen.routing else []
    facts.append(parts.Fact("drafts", f"{seen.revisions}{most}"))
    if kept is not None:
        still = still_open(seen)
        value = f"{parts.draft_words(kept.index)}: {_found(kept)}"
        facts.append(parts.Fact("kept", value, tone="warning" if still else "good"))
        facts.append(parts.Fact("open", still or "no", tone="warning" if still else "plain"))
    return facts


def _flags(seen: MultiPathResult, kept: Draft | None) -> tuple[str, ...]:
    """List what a reader must know: what is open, missing, cut or not counted."""
    if kept is None and seen.stop_reason == "unrouted":
        return ("no path could be chosen: give --mode research or --mode code",)
    if kept is None:
        return parts.said(seen.stop_reason and f"there is no {thing_words(seen.mode)}")
    code, still = kept.mode == "code", still_open(seen) if seen.stop_reason else ""
    better = f"{parts.draft_words(kept.index)} is given: {_found(kept)}, and no later one is better"
    unread = f"a person's text was not {'tested' if code else 'reflected on'}"
    tests = tally_words(len(seen.quarantined), "test")
    aside = f"{tests} written by the model, passed by no draft: not counted, please check"
    unsourced = "no source was found: no document backs what the report says"
    forged = "the tests ran beside the code, which could have forged their verdict (forgeable)"
    return parts.said(
        still and f"the result is open: {still}",
        seen.stop_reason and code and kept is not seen.drafts[-1] and better,
        kept.cut and f"the text was cut: {CUT}",
        kept.origin == "replaced" and unread,
        module_hint(kept.error),
        seen.quarantined and aside,
        not code and not seen.sources and unsourced,
        kept.report and kept.report.forgeable and forged,
    )


def _walk(decisions: Sequence[Decision]) -> tuple[parts.Chart, ...]:
    """Draw the nodes that a run went through, from the first to the end."""
    walked: list[tuple[str, Decision]] = [(made.after, made) for made in decisions if made.after]
    if not walked:
        return ()
    if decisions[-1].stop:
        walked.append((END, decisions[-1]))
    visited, first = {lane for lane, _ in walked}, walked[0][1].at
    lanes = [lane for lane in (*get_args(Node), END) if lane in visited]
    heights = {lane: 1 - place / max(1, len(lanes) - 1) for place, lane in enumerate(lanes)}
    points = tuple(heights[lane] for lane, _ in walked)
    labels = tuple(parts.reason_words(made) for _, made in walked)
    chart = parts.Chart(
        title="From node to node",
        axis="decisions",
        curves=(parts.Curve(name="the walk", points=points, labels=labels),),
        levels=tuple(reversed(lanes)),
        places=tuple(
            f"+{(made.at - first).total_seconds():,.1f} s" if first and made.at else ""
            for _, made in walked
        ),
    )
    return (chart,)


def _tables(seen: MultiPathResult, kept: Draft | None) -> list[parts.Table]:
    ordered = sorted(seen.drafts, key=lambda draft: draft is not kept)
    found = ((_found(draft),) for draft in seen.drafts)
    critiques = (
        (
            draft.index + 1,
            one.aspect,
            None if one.cited is None else f"[{one.cited}]",
            one.sentence,
            one.advice,
            claimed(one.author),
        )
        for draft in ordered
        for one in draft.critiques or ()
    )
    errors = ((draft.index + 1, draft.error) for draft in ordered if draft.error)
    sources = ((f"[{source.number}]", source.passage.place) for source in seen.sources)
    ideas = ((draft.index + 1, idea) for draft in ordered for idea in draft.suggestions)
    about = "draft|number, about, cited|extra, sentence, advice, by|extra"
    return [
        parts.draft_table(seen.drafts, kept, "kept", ("found",), found),
        parts.table("Critiques (K)", about, critiques),
        parts.table("Errors (E)", ("draft|number", Failure), errors),
        _tests(seen, kept),
        parts.table("Sources", "number, place", sources),
        parts.table("Ideas beyond the documents", "draft|number, idea", ideas),
    ]


def _tests(seen: MultiPathResult, kept: Draft | None) -> parts.Table:
    """List each test's outcome for each draft, failures first.

    Before the first outcome, list what the tests expect.
    """
    outcomes = {
        draft.index: {found.test: found for found in draft.report.outcomes}
        for draft in seen.drafts
        if draft.report and draft.report.outcomes
    }
    aside: dict[str, TestOutcome] = {found.test: found for found in seen.quarantined}
    by_kept = outcomes.get(kept.index, {}) if kept else {}
    told: dict[str, list[TestOutcome]] = {}
    for by_name in (*outcomes.values(), aside):
        for name, found in by_name.items():
            told.setdefault(name, []).append(found)
    if not told:
        cases = seen.suite.cases if seen.suite else ()
        return parts.table(
            "Tests", "test, expected", ((case.call, case.expected) for case in cases)
        )
    toned: list[tuple[parts.Tone, tuple[Cell, ...]]] = []
    for name, known in told.items():
        failed = [found.failed_words for found in known if not found.passed]
        came = (by_name.get(name) for by_name in outcomes.values())
        row = (
            f"{name} (quarantined)" if name in aside else name,
            known[-1].expected,
            *(("passed" if one.passed else "failed") if one else None for one in came),
            failed[-1] if failed else None,
        )
        held = by_kept.get(name, known[-1]).passed
        toned.append(("plain" if name in aside else "good" if held else "warning", row))
    toned.sort(key=lambda pair: pair[0] == "good")
    names = ("test", "expected|extra", *map(parts.draft_words, outcomes), "last failure")
    tones = tuple(tone for tone, _ in toned)
    return parts.table("Tests", names, (row for _, row in toned), tones=tones)


def _texts(seen: MultiPathResult, kept: Draft | None) -> list[parts.Text]:
    """List the full texts: tracebacks, drafts, outputs, the tests and passages."""
    texts = []

    def add(title: str, content: str | None, kind: str = "code", **more: Any) -> None:
        if content:
            texts.append(parts.Text(title=title, content=content, kind=kind, **more))

    if kept and kept.error:
        add("traceback", kept.error.traceback, folded=False)
    for draft in seen.drafts:
        report, name, best = draft.report, parts.draft_words(draft.index), draft is kept
        known = parts.said(
            _found(draft),
            draft.cut and f"cut {CUT}",
            parts.made_words(draft),
            report and report.words,
        )
        title = f"{parts.draft_name(draft)}{', kept' if best else ''}"
        kind = "code" if draft.mode == "code" else "markdown"
        add(title, draft.text, kind, note="; ".join(known), draft=draft.index + 1)
        if draft.error and not best:
            add(f"traceback of {name}", draft.error.traceback)
        if report:
            add(f"the end of what {name} printed", report.output)
    if seen.suite and seen.suite.file:
        add(seen.suite.file.name, seen.suite.file.text)
    for source in seen.sources:
        note = f"score {source.passage.score:.2f}"
        title = f"[{source.number}] {source.passage.place}"
        add(title, source.passage.text, "plain", note=note, source=source.number)
    return texts


def _steps(seen: MultiPathResult) -> list[parts.Step]:
    """Write a line for each decision: the node that ended, why, what comes next, and K under it."""
    unread, steps = {draft.index: draft.critiques or () for draft in seen.drafts}, []
    for made in seen.decisions:
        why = parts.reason_words(made)
        if made.after == "route" and made.next is not None and seen.routing is not None:
            why = seen.routing.words(seen.prompt)
        elif made.after in CHECKS and made.draft is not None:
            counted = None if made.error is None else _counts(made.passed, made.total)
            why = f"{parts.draft_words(made.draft)}: {f'{counted}; ' if counted else ''}{why}"
        below = []
        if made.after == "reflect_on_report" and made.draft is not None:
            # Once: a person's decision is about a draft whose critiques were shown before.
            found = unread.pop(made.draft, ())
            below = [critique.words for critique in found[:CRITIQUES_BELOW]]
            if len(found) > CRITIQUES_BELOW:
                below.append(f"and {len(found) - CRITIQUES_BELOW:,} more")
        mends = bool(made.critiques or made.error)
        words = f"{made.after or '-':<17}  {why} → {parts.outcome_words(made)}"
        tone: parts.Tone = "warning" if made.after in CHECKS and mends else "plain"
        steps.append(parts.Step(words=words, tone=tone, below=tuple(below)))
    return steps
