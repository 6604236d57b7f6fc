"""Which answers count as one: the canonical forms seen so far, and the answer that names each."""

from reflection.sampling.request import AnswerKind

WRITTEN_AS_GIVEN: frozenset[AnswerKind] = frozenset({"text", "llm"})


class Clusters:
    """The clusters of answers, each named by its first answer; they are never merged later.

    A number or a choice is named by its canonical form, a text as it was first written.
    """

    def __init__(self, kind: AnswerKind) -> None:
        self._kind = kind
        self._names: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clusters, in the order in which they were first seen."""
        return tuple(dict.fromkeys(self._names.values()))

    def find(self, canonical: str) -> str | None:
        """Name the cluster that this canonical form belongs to already, if any."""
        return self._names.get(canonical)

    def join(self, canonical: str, name: str) -> str:
        """Let a canonical form belong to the cluster called `name`, for good."""
        return self._names.setdefault(canonical, name)

    def open(self, canonical: str, written: str) -> str:
        """Begin a cluster with this answer, and return its name."""
        given = self._kind in WRITTEN_AS_GIVEN
        return self.join(canonical, " ".join(written.split()) if given else canonical)
