"""Finding passages in an index: by words, and the numbers that tell them apart."""

from collections.abc import Sequence
from typing import NamedTuple

from tantivy import DocAddress, Occur, Query

from activities.retrieval.bounds import SEARCH_WIDTHS
from activities.retrieval.index.damage import DamagedError, damage
from activities.retrieval.index.store import SCHEMA, Snapshot
from activities.retrieval.index.words import analyzer, choose_terms, query_terms

NAME_WEIGHT = 0.5
ANALYZE = analyzer().analyze


class Hit(NamedTuple):
    """A passage that was found. Those with one `copy` have the same text."""

    score: float
    file: int
    ordinal: int
    copy: int
    address: DocAddress


def search_words(snapshot: Snapshot, text: str, most: int) -> list[Hit]:
    """Rank passages of different texts by the words of any text, with BM25, the best first.

    At least `most` are returned where there are as many. Equals come in a fixed order.
    """
    with damage():
        terms = _terms(snapshot, text)
        return _widened(snapshot, _query(terms), most) if terms else []


def every_passage(snapshot: Snapshot) -> list[Hit]:
    """List passages of different texts in a fixed order."""
    with damage():
        return distinct(_ranked(snapshot, Query.all_query(), snapshot.searcher.num_docs + 1))


def distinct(ranking: Sequence[Hit]) -> list[Hit]:
    """Keep the first of the passages that have the same text."""
    return list({hit.copy: hit for hit in reversed(ranking)}.values())[::-1]


def _terms(snapshot: Snapshot, text: str) -> list[str]:
    searcher = snapshot.searcher

    def frequency(term: str) -> int:
        return max(searcher.doc_freq("words", term), searcher.doc_freq("name", term))

    return choose_terms(query_terms(text, ANALYZE), frequency, searcher.num_docs)


def _widened(snapshot: Snapshot, query: Query, most: int) -> list[Hit]:
    for limit in SEARCH_WIDTHS:
        hits = _ranked(snapshot, query, limit)
        found = distinct(hits)
        # The cut must be below what is asked for.
        if len(hits) < limit or (len(found) >= most and found[most - 1].score > hits[-1].score):
            break
    return found


def _query(terms: Sequence[str]) -> Query:
    """Terms are looked up as they are, so that no character of a query is an operator."""
    queries = []
    for term in terms:
        queries.append(Query.term_query(SCHEMA, "words", term, "freq"))
        name = Query.term_query(SCHEMA, "name", term, "freq")
        queries.append(Query.boost_query(name, NAME_WEIGHT))
    return Query.boolean_query([(Occur.Should, each) for each in queries])


def _ranked(snapshot: Snapshot, query: Query, most: int) -> list[Hit]:
    found = snapshot.searcher.search(query, most, count=False).hits
    addresses = [address for _, address in found]
    columns = [
        snapshot.searcher.fast_field_values(name, addresses) for name in ("file", "ordinal", "copy")
    ]
    hits = [
        Hit(round(score, 6), file, ordinal, copy, address)
        for (score, address), file, ordinal, copy in zip(found, *columns, strict=True)
    ]
    if any(hit.file is None for hit in hits):
        raise DamagedError("a passage has no file")
    return sorted(hits, key=lambda hit: (-hit.score, hit.file, hit.ordinal))
