"""Which passages of those found are given back."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from activities.retrieval.index.searching import Hit, distinct

FUSION_CONSTANT = 60


def fuse(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Fuse rankings by the sum of 1 / (60 + rank) over the lists that hold a passage.

    Source: Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods", SIGIR 2009.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    hits: dict[int, Hit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(distinct(ranking), 1):
            scores[hit.copy] += 1 / (FUSION_CONSTANT + rank)
            hits.setdefault(hit.copy, hit)
    fused = [hit._replace(score=round(scores[copy], 9)) for copy, hit in hits.items()]
    return sorted(fused, key=lambda hit: (-hit.score, hit.file, hit.ordinal))


def choose(ranking: Sequence[Hit], most: int) -> list[Hit]:
    """Choose the best, at most half of them of one file while others have any left."""
    share = (most + 1) // 2
    taken: Counter[int] = Counter()
    chosen: list[Hit] = []
    spare: list[Hit] = []
    for hit in distinct(ranking):
        taken[hit.file] += 1
        (chosen if taken[hit.file] <= share else spare).append(hit)
    picked = {hit.copy for hit in (chosen + spare)[:most]}
    return [hit for hit in distinct(ranking) if hit.copy in picked]
