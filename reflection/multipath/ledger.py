"""What a run spent so far, in parts, and what its budget still has room for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from reflection.budget import Budget, refusal
from reflection.usage import Part, Spending, Usage, total, usage


@dataclass
class Ledger:
    """The replies of a run by part, and the calls that brought none.

    `retrieving` is the search by meaning, `generating` are first drafts and tests, `evaluating`
    routes and reflections, `revising` every later draft.
    """

    budget: Budget
    spent: dict[Part, list[Spending]] = field(
        default_factory=lambda: {
            "retrieving": [],
            "generating": [],
            "evaluating": [],
            "revising": [],
        }
    )
    retried: int = 0
    cancelled: int = 0

    def no_room(self, part: Part) -> str | None:
        """Say why the budget has no room for the next call of a part; None where it has."""
        searched = self.spent["retrieving"]
        asked = [
            each for name, listed in self.spent.items() if name != "retrieving" for each in listed
        ]
        if searched and not asked:
            return _used_up(self.budget, total(searched))
        # What a search cost says nothing of the size of a call that writes or judges.
        alike = self.spent[part] or (asked if searched else [])
        return refusal(self.budget, [*searched, *asked], alike)

    def pay(self, part: Part, spending: Spending | None, attempts: int) -> None:
        """Count a reply, and the attempts before it that brought none."""
        self.retried += attempts - (spending is not None)
        if spending is not None:
            self.spent[part].append(spending)

    def lose(self, calls: int) -> None:
        """Count calls that were cancelled before their reply came."""
        self.cancelled += calls

    @property
    def used(self) -> Usage:
        """All of it, summed up in parts; without a search by meaning there is none for it."""
        return usage(
            self.spent["generating"],
            self.spent["evaluating"],
            self.retried,
            self.cancelled,
            self.spent["revising"],
            self.spent["retrieving"] or None,
        )


def _used_up(budget: Budget, searched: Spending) -> str | None:
    """Say why a search left nothing of a budget: it used it up, or nobody knows what it cost."""
    for unit, bound, used in _bounds(budget, searched):
        if bound is not None and used is None:
            model = "the embedding model's provider does not report"
            return f"{model} {unit}, so {bound:,g} {unit} can't be kept to"
        if bound is not None and used is not None and used >= bound:
            return f"{used:,.6g} of {bound:,g} {unit} are spent, on the search by meaning"
    return None


def _bounds(budget: Budget, spent: Spending) -> Sequence[tuple[str, float | None, float | None]]:
    return ("tokens", budget.tokens, spent.tokens), ("US dollars", budget.usd, spent.cost_usd)
