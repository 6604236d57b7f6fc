"""What a run spent, in parts."""

from reflection.run import Spending, total, usage

KNOWN = Spending(calls=1, input_tokens=80, output_tokens=20, cached_tokens=5, cost_usd=0.25)
UNPRICED = Spending(calls=1, input_tokens=10, output_tokens=1)


def test_one_unknown_makes_its_sum_unknown() -> None:
    """Unknown is never 0: a cost that one call did not report is no sum of the others."""
    found = total([KNOWN, UNPRICED])

    assert found == Spending(calls=2, input_tokens=90, output_tokens=21)


def test_parts_are_apart_and_totals_cover_what_was_recorded() -> None:
    """Calls without a reply are counted in parts of their own, with unknown tokens."""
    found = usage({"generating": [KNOWN, KNOWN], "evaluating": [KNOWN]}, retried=2, cancelled=0)

    assert (found.calls, found.input_tokens, found.cost_usd) == (3, 240, 0.75)
    assert found.parts["generating"].calls == 2
    assert found.parts["evaluating"] == KNOWN
    assert found.parts["retried"] == Spending(calls=2)
    assert found.parts["cancelled"] == total([])
