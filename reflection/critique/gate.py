"""When to reflect: the off switch, the query's complexity, and what follows."""

from typing import NamedTuple

from reflection.critique.request import ReflectOnResultRequest
from reflection.critique.result import StopReason

STRICT_THRESHOLD = 0.95


class Gate(NamedTuple):
    """Whether to reflect: a stop reason and why; or None."""

    stop_reason: StopReason | None = None
    reason: str = ""


def should_reflect(request: ReflectOnResultRequest, estimated: float | None) -> Gate:
    """Tell whether a run shall reflect at all, and which rule says no.

    It shall not where it is switched off, where a synthesis step follows, and where the query's
    complexity, 0 to 1, as given or else as `estimated`, is not above `min_complexity`. Where that
    is not known it shall.
    Source: Shannon's reflection chapter, section 11.5; 0.5 is from Shannon's code.
    """
    if not request.reflect:
        return Gate("disabled", "reflection is switched off")
    if request.synthesis_follows:
        return Gate("skipped", "a synthesis step follows, which writes the result anew")
    how, found = "given", request.complexity
    if found is None:
        how, found = "estimated", estimated
    if found is None or found > request.min_complexity:
        return Gate()
    least = f"the {how} complexity {found:.2f} is not above {request.min_complexity:g}"
    return Gate("skipped", f"{least} (min_complexity)")


def warnings(request: ReflectOnResultRequest) -> list[str]:
    """Warn of settings that cost much and bring little.

    Source: Shannon's reflection chapter, section 11.6, pitfall 1.
    """
    if request.score_threshold < STRICT_THRESHOLD:
        return []
    said = f"a score_threshold of {request.score_threshold:g} is hardly ever reached"
    return [f"{said}, so that almost every draft is revised to no end; 0.7 is the default"]
