"""The sheet of a reflection run, running or finished: drafts, evaluations and decisions.

Each table covers all drafts; in those for panel, guardrails and feedback the best draft is first.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from mull import sheet as parts
from mull.critique.criteria import passes
from mull.critique.evaluation import Cap, Evaluation, Feedback, Judgement
from mull.critique.request import ReflectOnResultRequest
from mull.critique.result import Decision, Draft, ReflectOnResultResult
from mull.text import bar, claimed

STEP_WORDS: Mapping[str, str] = {
    "starting": "Starting",
    "writing": "Writing the first draft",
    "evaluating": "Evaluating",
    "revising": "Revising",
    "waiting_for_review": "Waiting for a person's review",
}


def sheet(
    seen: ReflectOnResultResult, request: ReflectOnResultRequest | None = None
) -> parts.Sheet:
    """Build the sheet of a run."""
    best, answer = best_of(seen), None
    if best:
        answer = _text(best).model_copy(update={"title": "draft", "folded": False})
    return parts.run_sheet(
        seen,
        subject=seen.query,
        doing=STEP_WORDS.get(seen.step, ""),
        answer=answer,
        facts=_facts(seen, best, request),
        flags=_flags(seen, best, request) if seen.stop_reason else (),
        charts=_charts(seen),
        tables=_tables(seen, best),
        texts=tuple(_text(draft) for draft in seen.drafts if draft is not best),
        decisions=parts.decision_table(Decision, seen.decisions),
        steps=_steps(seen.drafts, seen.decisions),
    )


def best_of(seen: ReflectOnResultResult) -> Draft | None:
    """Return the best draft so far; the first one if none was scored."""
    first = next(iter(seen.drafts), None)
    return next((draft for draft in seen.drafts if draft.index == seen.best), first)


def judged_words(evaluation: Evaluation | None) -> str:
    """Give the judges' score and who changed it; empty if nobody did."""
    if evaluation is None or evaluation.score is None:
        return ""
    judged = "" if evaluation.judged is None else f"judged {evaluation.judged:.2f}"
    if evaluation.author:
        return ", ".join(parts.said(f"scored by {claimed(evaluation.author)}", judged))
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


def _note(draft: Draft) -> str:
    """Describe a draft's score and origin."""
    known = parts.said(
        _score(draft),
        draft.revises is not None and f"revises {parts.draft_words(draft.revises)}",
        draft.finish_reason and f"finish reason {draft.finish_reason}",
        draft.cut and "cut to the size limit of a result",
        parts.made_words(draft),
    )
    return "; ".join(known)


def _text(draft: Draft) -> parts.Text:
    title, number = parts.draft_name(draft), draft.index + 1
    return parts.Text(title=title, content=draft.text, note=_note(draft), draft=number)


def _facts(
    seen: ReflectOnResultResult, best: Draft | None, request: ReflectOnResultRequest | None
) -> list[parts.Fact]:
    facts = [parts.Fact("best", "no draft" if seen.stop_reason else "no draft yet")]
    evaluation = best.evaluation if best else None
    if best is not None:
        good = best.score is not None and passes(best.score, seen.score_threshold)
        value = f"{parts.draft_words(best.index)} of {len(seen.drafts)}, {_score(best)}"
        sure = evaluation and evaluation.confidence
        note = f"the judge's confidence is {sure}" if sure else ""
        facts = [parts.Fact("best", value, note, "good" if good else "warning")]
    if evaluation and evaluation.spread is not None:
        note = "the largest difference between two judges"
        facts.append(parts.Fact("spread", f"{evaluation.spread:.2f}", note))
    # Results of 0.1.0 do not have it.
    most = seen.max_revisions
    if most is None and request is not None:
        most = request.max_revisions
    at_most = "" if most is None else f" of at most {most}"
    facts.append(parts.Fact("revisions", f"{seen.revisions}{at_most}"))
    if seen.complexity is not None:
        least = f"{request.min_complexity:g}" if request else "min_complexity"
        note = f"how much it asks for, 0 to 1; drafts are judged above {least}"
        facts.append(parts.Fact("complexity of the query", f"{seen.complexity:.2f}", note))
    return facts


def _flags(
    seen: ReflectOnResultResult, best: Draft | None, request: ReflectOnResultRequest | None
) -> tuple[str, ...]:
    """List what a reader must know before using the draft."""
    synthesis = seen.complexity is None and (request is None or request.synthesis_follows)
    leave_out = "--no-reflect" if seen.stop_reason == "disabled" else "--synthesis-follows"
    hint = f"leave out {leave_out} to have it judged and revised"
    if seen.stop_reason == "skipped" and not synthesis:
        hint = "use --min-complexity 0 to have it judged and revised anyway"
    better = ""
    if best and best.score is not None and best is not seen.drafts[-1]:
        better = f"no draft after {parts.draft_words(best.index)} scored higher"
        if seen.drafts[-1].score is None:
            last = parts.draft_words(seen.drafts[-1].index)
            better = f"{last} was not judged; the best earlier draft is given instead"
    return parts.said(
        best is None and "there is no draft",
        best and best.cut and "the draft was cut to the size limit of a result",
        best and best.score is None and "the draft has no score",
        best and best.doubt and seen.doubt and f"not to be built on: {seen.doubt}",
        better,
        seen.stop_reason in {"disabled", "skipped"} and hint,
    )


def _charts(seen: ReflectOnResultResult) -> tuple[parts.Chart, ...]:
    scores = tuple(draft.score for draft in seen.drafts)
    judged = tuple(draft.evaluation.judged if draft.evaluation else None for draft in seen.drafts)
    if all(score is None for score in scores):
        return ()
    curves = [parts.Curve(name="score", points=scores)]
    if judged != scores:
        curves.append(parts.Curve(name="judges' score", points=judged))
    at = seen.score_threshold
    bound = parts.Bound(f"threshold {at:g}", at, "score")
    chart = parts.Chart(
        title="Scores", axis="drafts", curves=tuple(curves), bounds=(bound,), gap="no score"
    )
    return (chart,)


def _tables(seen: ReflectOnResultResult, best: Draft | None) -> list[parts.Table]:
    """Build the tables of drafts, criteria, judges, guardrails and feedback."""
    measures = ((draft.score, judged_words(draft.evaluation), draft) for draft in seen.drafts)
    ordered = sorted(seen.drafts, key=lambda draft: draft is not best)
    told = [(draft.index + 1, draft.evaluation) for draft in ordered if draft.evaluation]
    judged = {
        number: one.criteria for number, one in sorted(told, key=itemgetter(0)) if one.criteria
    }
    weighed = (
        (one.name, f"{one.weight:g}", *(got.get(one.name) for got in judged.values()), one.meaning)
        for one in seen.criteria
        if judged
    )
    panel = [(number, one) for number, evaluation in told for one in evaluation.judgements]
    scored = dict.fromkeys(name for _, one in panel for name in one.scores or {})
    judges = (
        (
            number,
            one.judge or one.model or "the worker's own",
            one,
            *((one.scores or {}).get(name) for name in scored),
        )
        for number, one in panel
    )
    caps = ((number, cap) for number, evaluation in told for cap in evaluation.guardrails)
    feedback: dict[Feedback, dict[int, None]] = {}
    for number, evaluation in told:
        for one in evaluation.feedback:
            feedback.setdefault(one, {})[number] = None
    advice = (
        (", ".join(map(str, numbers)), one.criterion or one.judge, one.place, one.advice, one.judge)
        for one, numbers in feedback.items()
    )
    criteria = (f"draft {number}|share" for number in judged)
    names = (f"{name}|number|extra" for name in scored)
    tones = tuple("warning" if one.error else "plain" for _, one in panel)
    few = all(len(evaluation.judgements) < 2 for _, evaluation in told)
    return [
        parts.draft_table(seen.drafts, best, "best", ("score|share", "why|extra", Draft), measures),
        parts.table(
            "Criteria", ("criterion", "weight|number", *criteria, "meaning|extra"), weighed
        ),
        parts.table(
            "Panel",
            ("draft|number", "judge", Judgement, *names),
            judges,
            tones=tones,
            folded=few,
        ),
        parts.table("Guardrails", ("draft|number", Cap), caps),
        parts.table("Feedback", "drafts, criterion, place|extra, advice, by|extra", advice),
    ]


def _steps(drafts: Sequence[Draft], decisions: Sequence[Decision]) -> tuple[parts.Step, ...]:
    """Write a line for each decision, with its draft's scores the first time."""
    unshown, steps = {draft.index: draft for draft in drafts}, []
    for made in decisions:
        tone: parts.Tone = "plain"
        words = f"{parts.next_words(made)}: {parts.reason_words(made)}"
        if made.draft is not None:
            draft = unshown.pop(made.draft, None)
            evaluation = draft.evaluation if draft else None
            scores = criteria = ""
            if evaluation is not None:
                score, judged = evaluation.score, judged_words(evaluation)
                tone = "good" if score is not None and passes(score, made.threshold) else "warning"
                scores = "no score" if score is None else f"{score:.2f} {bar(score, 8)}"
                scores += f"  ({judged})" if judged else ""
                criteria = " ".join(f"{name} {at:.2f}" for name, at in evaluation.criteria.items())
            head = f"{parts.draft_words(made.draft) if draft else '':<7}"
            words = "  ".join(parts.said(head, scores, words, criteria))
        steps.append(parts.Step(words=words, tone=tone))
    return tuple(steps)
