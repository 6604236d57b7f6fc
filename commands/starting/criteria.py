"""By what a draft is judged, as words of the command line."""

from collections.abc import Sequence

from commands.inputs import checked
from commands.session import Exit, fail

CRITERION_FORM = "NAME[*WEIGHT]=MEANING"
EXAMPLE = '"tone*2=It is courteous."'
# Written out, since what knows them takes too long to import for --help; a test compares.
PRESET_NAMES = (
    "general",
    "cost_sensitive",
    "research",
    "code",
    "documentation",
    "support_reply",
    "competitive_analysis",
)


def chosen_criteria(
    preset: str | None, own: Sequence[str]
) -> str | list[dict[str, str | float]] | None:
    """Return a preset's name or one's own criteria, as the request takes them."""
    if preset is not None and own:
        fail("give --criteria or --criterion, not both.", Exit.USAGE)
    if preset is not None and preset not in PRESET_NAMES:
        fail(f"--criteria: one of {', '.join(PRESET_NAMES)}.", Exit.USAGE)
    return [_criterion(each) for each in own] if own else preset


def _criterion(text: str) -> dict[str, str | float]:
    from reflection.critique.criteria import Criterion

    head, equals, meaning = text.partition("=")
    name, star, weight = head.partition("*")
    if not equals or not meaning.strip():
        fail(f"--criterion: write {CRITERION_FORM}, such as {EXAMPLE}", Exit.USAGE)
    known = {"name": name.strip(), "meaning": meaning.strip()}
    made = checked(Criterion, {**known, "weight": _weight(weight) if star else None}, "--criterion")
    return {"name": made.name, "meaning": made.meaning, "weight": made.weight}


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        fail("--criterion: the weight after * is a number, such as 2.", Exit.USAGE)
