"""What a run spent so far, in parts, and what its budget still has room for."""

from dataclasses import dataclass, field

from reflection.budget import Budget, refusal
from reflection.usage import Part, Spending, Usage, usage


@dataclass
class Ledger:
    """The replies of a run by part, and the calls that brought none.

    `generating` are first drafts and tests, `evaluating` routes and reflections, `revising` every
    later draft.
    """

    budget: Budget
    spent: dict[Part, list[Spending]] = field(
        default_factory=lambda: {"generating": [], "evaluating": [], "revising": []}
    )
    retried: int = 0
    cancelled: int = 0

    def no_room(self, part: Part) -> str | None:
        """Say why the budget has no room for the next call of a part; None where it has."""
        everything = [each for spendings in self.spent.values() for each in spendings]
        return refusal(self.budget, everything, self.spent[part])

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
        """All of it, summed up in parts."""
        generating, evaluating = self.spent["generating"], self.spent["evaluating"]
        return usage(generating, evaluating, self.retried, self.cancelled, self.spent["revising"])
