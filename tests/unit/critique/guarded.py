"""What the tests of guardrails share: running one, and an honest text."""

from typing import Any

from reflection.critique.guardrails import Checked, check

QUERY = "Explain how coral reefs form and why they bleach."
HONEST = (
    "Coral reefs form when free-swimming larvae settle on hard ground along the edges of islands. "
    "Each polyp builds a cup of limestone, and over centuries the cups of the dead carry the "
    "living upwards, towards the light. Algae inside the tissue give the animal most of its sugar "
    "and all of its colour. When the sea stays a degree too warm for some weeks, the partnership "
    "fails: the algae make toxic oxygen, the coral throws them out, and white skeleton shows "
    "through. It isn't dead yet. If cooler water comes soon, new algae move in; if not, the animal "
    "starves within two months, and seaweed covers what it built."
)


def capped(name: str, draft: str, query: str = QUERY, **given: Any) -> float | None:
    """Return the cap that this guardrail puts on a draft, or None."""
    report = check(Checked(query=query, draft=draft, **given), [name])
    assert report.failures == ()
    return report.caps[0].cap if report.caps else None


def reason(name: str, draft: str, query: str = QUERY, **given: Any) -> str:
    """Return why this guardrail caps a draft."""
    (cap,) = check(Checked(query=query, draft=draft, **given), [name]).caps
    return cap.reason
