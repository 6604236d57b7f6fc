"""What the source says that reflection costs."""

from reflection.run import Record


class SourceCost(Record):
    """Tokens of one question by one method; `change` is in percent of no reflection's tokens."""

    method: str
    draft: int
    evaluation: int
    revision: int
    total: int
    change: float


DRAFT_INPUT = 3_000
DRAFT_OUTPUT = 5_000
EVALUATION = 1_000


def _cost(method: str, revisions: int) -> SourceCost:
    draft = DRAFT_INPUT + DRAFT_OUTPUT
    evaluation, revision = revisions * EVALUATION, revisions * draft
    total = draft + evaluation + revision
    change = 100 * (total - draft) / draft
    return SourceCost(
        method=method,
        draft=draft,
        evaluation=evaluation,
        revision=revision,
        total=total,
        change=change,
    )


SOURCE_COSTS = (_cost("single", 0), _cost("reflect", 1))
"""Source: Shannon's reflection chapter, 11.5, which writes the 112.5 % as +112 %. It counts one
evaluation for one revision; where the revision is scored as well, there is one more."""
