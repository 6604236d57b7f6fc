"""The sheet of a reflection run, running or finished: drafts, evaluations and decisions.

Each table covers all drafts; in those for panel, guardrails and feedback the best draft is first.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from reflection.critique.criteria import passes
from reflection.critique.evaluation import Evaluation
from reflection.critique.request import ReflectOnResultRequest
from reflection.critique.result import Decision, Draft, Progress, ReflectOnResultResult, Step
from reflection.details import bar
from reflection.sheet import (
    Bound,
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

Seen = Progress | ReflectOnResultResult

STEP_WORDS: Mapping[Step, str] = {
    "starting": "Starting",
    "writing": "Writing the first draft",
    "evaluating": "Evaluating",
    "revising": "Revising",
    "waiting_for_review": "Waiting for a person's review",
    "finished": "Finished",
}
TONES: Mapping[str, Tone] = {
    "passed": "good",
    "accepted_by_person": "good",
    "replaced_by_person": "good",
    "scored_by_person": "good",
    "disabled": "plain",
    "skipped": "plain",
    "evaluation_failed": "bad",
    "revision_failed": "bad",
}


def sheet(
    seen: Seen,
    decisions: Sequence[Decision] = (),
    request: ReflectOnResultRequest | None = None,
) -> Sheet:
    """Build the sheet of a run; while it runs, its decisions come from a separate query."""
    best, busy, waiting = best_of(seen), "", None
    if isinstance(seen, ReflectOnResultResult):
        decisions, why = seen.decisions, seen.stop_explanation
    else:
        why = decisions[-1].reason if decisions else seen.stop_reason or ""
        if seen.stop_reason is None:
            flight = f", {tally_words(seen.in_flight, 'call')} in flight" if seen.in_flight else ""
            busy = why = f"{STEP_WORDS[seen.step]}{flight}"
        if decisions and decisions[-1].waits_for_review:
            waiting = Waiting(until=seen.review_until)
    tone: Tone = "running"
    if seen.stop_reason is not None:
        tone = TONES.get(seen.stop_reason, "warning") if seen.drafts else "bad"
    return Sheet(
        subject=seen.query,
        verdict=Verdict(words=why, tone=tone, stop_reason=seen.stop_reason),
        answer=best and Text(title="draft", content=best.text, note=_note(best), folded=False),
        facts=_facts(seen, best, request),
        flags=tuple(_flags(seen, best, request)) if seen.stop_reason else (),
        warnings=seen.warnings,
        charts=_charts(seen),
        tables=tuple(_tables(seen, best)),
        texts=tuple(
            Text(title=_name(draft), content=draft.text, note=_note(draft))
            for draft in seen.drafts
            if draft is not best
        ),
        decisions=_decisions(decisions) if decisions else None,
        steps=_steps(seen.drafts, decisions),
        busy=busy,
        waiting=waiting,
    )


def best_of(seen: Seen) -> Draft | None:
    """Return the best draft so far; the first one if none was scored."""
    first = next(iter(seen.drafts), None)
    return next((draft for draft in seen.drafts if draft.index == seen.best), first)


def judged_words(evaluation: Evaluation | None) -> str:
    """Give the judges' score and who changed it; empty if nobody did."""
    if evaluation is None or evaluation.score is None:
        return ""
    judged = "" if evaluation.judged is None else f"judged {evaluation.judged:.2f}"
    if evaluation.author:
        return f"scored by {evaluation.author}{f', {judged}' if judged else ''}"
    if evaluation.judged is None or evaluation.score >= evaluation.judged:
        return ""
    held = [cap.guardrail for cap in evaluation.guardrails if evaluation.judged > cap.above]
    return f"{judged}, capped by {', '.join(held)}" if held else ""


def _score(draft: Draft) -> str:
    """Write a draft's score with who changed it, or why there is none."""
    if draft.evaluation is None:
        return "not evaluated"
    if draft.evaluation.score is None:
        return f"no score: {draft.evaluation.error or 'it was not evaluated'}"
    judged = judged_words(draft.evaluation)
    return f"score {draft.evaluation.score:.2f}{f' ({judged})' if judged else ''}"


def _name(draft: Draft) -> str:
    return f"{draft_words(draft.index)}, {origin_words(draft.origin, draft.author)}"


def _note(draft: Draft) -> str:
    """Describe a draft's score and origin."""
    known = (
        _score(draft),
        draft.revises is not None and f"revises {draft_words(draft.revises)}",
        draft.finish_reason and f"finish reason {draft.finish_reason}",
        draft.cut and "cut to the size limit of a result",
        made_words(draft.model, draft.seed, draft.timestamp, draft.attempts, draft.spending),
    )
    return "; ".join(part for part in known if part)


def _facts(
    seen: Seen, best: Draft | None, request: ReflectOnResultRequest | None
) -> tuple[Fact, ...]:
    facts = []
    if best is None:
        value = "no draft" if seen.stop_reason else "no draft yet"
        facts.append(Fact(label="best", value=value))
    else:
        good = best.score is not None and passes(best.score, seen.score_threshold)
        sure = best.evaluation and best.evaluation.confidence
        value = f"{draft_words(best.index)} of {len(seen.drafts)}, {_score(best)}"
        note = f"the judge's confidence is {sure}" if sure else ""
        facts.append(Fact(label="best", value=value, note=note, tone="good" if good else "warning"))
        if best.evaluation and best.evaluation.spread is not None:
            note = "the largest difference between two judges"
            facts.append(Fact(label="spread", value=f"{best.evaluation.spread:.2f}", note=note))
    most = seen.max_revisions if isinstance(seen, Progress) else request and request.max_revisions
    revisions = str(seen.revisions) if most is None else f"{seen.revisions} of at most {most}"
    facts += [
        Fact(label="threshold", value=f"{seen.score_threshold:g}"),
        Fact(label="revisions", value=revisions),
        Fact(label="spent", value=spent_words(seen.usage)),
    ]
    if seen.model:
        facts.append(model_fact(seen.model, "drafts"))
    if isinstance(seen, ReflectOnResultResult):
        facts += [Fact(label="judge", value=judge) for judge in seen.judges]
        if seen.complexity is not None:
            facts.append(Fact(label="complexity of the query", value=f"{seen.complexity:.2f}"))
    return tuple(facts)


def _flags(seen: Seen, best: Draft | None, request: ReflectOnResultRequest | None) -> list[str]:
    """List what a reader must know before using the draft."""
    flags = []
    if best is None:
        flags.append("there is no draft")
    else:
        later = seen.drafts[-1]
        if best.cut:
            flags.append("the draft was cut to the size limit of a result")
        if best.score is None:
            flags.append("the draft has no score")
        elif best is not later and later.score is None:
            name = draft_words(later.index)
            flags.append(f"{name} was not judged; the best earlier draft is given instead")
        elif best is not later:
            flags.append(f"{draft_words(best.index)} scored higher than the drafts after it")
    if seen.stop_reason == "disabled":
        flags.append("leave out --no-reflect to have it judged and revised")
    if seen.stop_reason == "skipped":
        complexity = seen.complexity if isinstance(seen, ReflectOnResultResult) else None
        if complexity is None and (request is None or request.synthesis_follows):
            flags.append("leave out --synthesis-follows to have it judged and revised")
        else:
            flags.append("use --min-complexity 0 to have it judged and revised anyway")
    return flags


def _charts(seen: Seen) -> tuple[Chart, ...]:
    scores = tuple(draft.score for draft in seen.drafts)
    judged = tuple(draft.evaluation.judged if draft.evaluation else None for draft in seen.drafts)
    if all(score is None for score in scores):
        return ()
    curves = [Curve(name="score", points=scores)]
    if judged != scores:
        curves.append(Curve(name="judges' score", points=judged))
    words, bar_at = f"threshold {seen.score_threshold:g}", seen.score_threshold
    bound = Bound(label=words, value=bar_at, curve="score")
    shown = {"curves": tuple(curves), "bounds": (bound,), "gap": "no score"}
    return (Chart.model_validate({"title": "Scores", "axis": "drafts", **shown}),)


def _tables(seen: Seen, best: Draft | None) -> list[Table]:
    """Build the tables of drafts, criteria, judges, guardrails, feedback and usage."""
    drafts = Table(
        title="Drafts",
        columns=columns(
            "#", "origin", "score|share", "judged|extra", "change", "chars|number|extra",
            "model|extra",
        ),
        rows=tuple(
            (
                f"{draft.index + 1} best" if draft is best else str(draft.index + 1),
                origin_words(draft.origin, draft.author),
                draft.score,
                judged_words(draft.evaluation) or None,
                None if draft.change is None else f"{draft.change:+.2f}",
                len(draft.text),
                draft.model,
            )
            for draft in seen.drafts
        ),
        tones=tuple("good" if draft is best else "plain" for draft in seen.drafts),
        newest=True,
    )  # fmt: skip
    ordered = sorted(seen.drafts, key=lambda draft: draft is not best)
    told = [(draft.index + 1, draft.evaluation) for draft in ordered if draft.evaluation]
    judged = [one for one in sorted(told, key=itemgetter(0)) if one[1].criteria]
    names = (f"draft {number}|share" for number, _ in judged)
    criteria = Table(
        title="Criteria",
        columns=columns("criterion", "weight|number", *names, "meaning|extra"),
        rows=tuple(
            (
                criterion.name,
                f"{criterion.weight:g}",
                *(evaluation.criteria.get(criterion.name) for _, evaluation in judged),
                criterion.meaning,
            )
            for criterion in seen.criteria
            if judged
        ),
    )
    panel = [(number, one) for number, evaluation in told for one in evaluation.judgements]
    scored = list(dict.fromkeys(name for _, one in panel for name in one.scores or {}))
    judges = Table(
        title="Panel",
        columns=columns(
            "draft|number", "judge", "score|share", "left out because",
            *(f"{name.replace('|', '/')}|number|extra" for name in scored),
            "confidence|extra", "replies|number|extra",
        ),
        rows=tuple(
            (
                number,
                one.judge or one.model or "the worker's own",
                one.score,
                one.error,
                *((one.scores or {}).get(name) for name in scored),
                one.confidence,
                one.replies,
            )
            for number, one in panel
        ),
        tones=tuple("warning" if one.error else "plain" for _, one in panel),
        folded=all(len(evaluation.judgements) < 2 for _, evaluation in told),
    )  # fmt: skip
    guardrails = Table(
        title="Guardrails",
        columns=columns(
            "draft|number", "guardrail", "caps at|number", "scores above|number|extra", "because"
        ),
        rows=tuple(
            (number, cap.guardrail, f"{cap.cap:g}", f"{cap.above:g}", cap.reason)
            for number, evaluation in told
            for cap in evaluation.guardrails
        ),
    )
    feedback = Table(
        title="Feedback",
        columns=columns("draft|number", "criterion", "place|extra", "advice", "by|extra"),
        rows=tuple(
            (number, said.criterion or said.judge, said.place, said.advice, said.judge)
            for number, evaluation in told
            for said in evaluation.feedback
        ),
    )
    found = (drafts, criteria, judges, guardrails, feedback, usage_table(seen.usage))
    return [table for table in found if table.rows]


def _outcome(decision: Decision) -> str:
    return "stop" if decision.stop else "review" if decision.waits_for_review else "revise"


def _decisions(decisions: Sequence[Decision]) -> Table:
    return Table(
        title="Decisions",
        columns=columns(
            "after draft|number", "score|number", "judged|number|extra", "change|extra",
            "best|number|extra", "best score|number|extra", "revisions|number|extra", "decision",
            "because", "at|extra",
        ),
        rows=tuple(
            (
                None if made.draft is None else made.draft + 1,
                made.score,
                made.judged,
                None if made.change is None else f"{made.change:+.2f}",
                None if made.best is None else made.best + 1,
                made.best_score,
                made.revisions,
                f"{_outcome(made)}: {made.stop_reason}" if made.stop_reason else _outcome(made),
                reason_words(made.reason, made.asked, made.author),
                moment_words(made.at),
            )
            for made in decisions
        ),
        newest=True,
    )  # fmt: skip


def _steps(drafts: Sequence[Draft], decisions: Sequence[Decision]) -> tuple[Line, ...]:
    """Write a line for each decision, with its draft's scores the first time."""
    known, shown, steps = {draft.index: draft for draft in drafts}, set(), []
    for made in decisions:
        why = reason_words(made.reason, made.asked, made.author)
        parts = brief = [f"{_outcome(made)}: {why}"]
        tone: Tone = "plain"
        if made.draft is not None:
            head = "" if made.draft in shown else draft_words(made.draft)
            draft = known.get(made.draft)
            evaluation = draft.evaluation if draft and head else None
            if evaluation is not None:
                score, judged = evaluation.score, judged_words(evaluation)
                tone = "good" if score is not None and passes(score, made.threshold) else "warning"
                drawn = "no score" if score is None else f"{score:.2f} {bar(score, 8)}"
                criteria = (f"{name} {value:.2f}" for name, value in evaluation.criteria.items())
                parts = [drawn, f"({judged})" if judged else "", " ".join(criteria), *parts]
                brief = [drawn, parts[1].replace("capped by ", ""), *brief]
            parts, brief = ([f"{head:<7}", *filter(None, words)] for words in (parts, brief))
            shown.add(made.draft)
        steps.append(Line(words="  ".join(parts), short="  ".join(brief), tone=tone))
    return tuple(steps)
