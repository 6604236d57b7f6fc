"""What the curves of a run are held against."""

from collections.abc import Mapping, Sequence

from commands.report.plot import Threshold
from reflection.sampling.result import Decision
from reflection.sampling.rules import Rule

BOUNDS: Mapping[Rule, Sequence[tuple[str, float, str, str]]] = {
    "combined": (
        ("confidence_threshold", 1.0, "confidence threshold", "confidence"),
        ("confidence_threshold", 0.9, "score, at least", "compared"),
        ("entropy_threshold", 1.0, "entropy threshold", "entropy"),
    ),
    "confidence_only": (("confidence_threshold", 1.0, "confidence threshold", "confidence"),),
    "off": (("confidence_threshold", 1.0, "confidence threshold", "confidence"),),
    "entropy_only": (("entropy_threshold", 1.0, "entropy threshold", "entropy"),),
    "predictive": (("epsilon", 1.0, "epsilon", "compared"),),
    "beta": (("beta_threshold", 1.0, "beta threshold", "compared"),),
}


def thresholds(
    rule: Rule, settings: Mapping[str, object], decisions: Sequence[Decision]
) -> list[Threshold]:
    """List what the rule holds the curves against; what settings lack comes from the decisions."""
    found = [
        Threshold(f"{label} {value * factor:.4g}", value * factor, curve)
        for key, factor, label, curve in BOUNDS.get(rule, ())
        if isinstance(value := settings.get(key), int | float)
    ]
    known = {round(each.value, 9) for each in found}
    met = {round(each.bound or 0.0, 9) for each in decisions if compared(each) is not None}
    more = [Threshold(f"bound {each:.4g}", each, "compared") for each in sorted(met - known)]
    return found + more


def compared(decision: Decision) -> float | None:
    """Return what the rule compared where it is a share or a probability: 0 to 1, else None."""
    value, bound = decision.value, decision.bound
    if value is None or bound is None or decision.stop_reason not in {None, "rule"}:
        return None
    return value if 0 <= value <= 1 and 0 < bound <= 1 else None
