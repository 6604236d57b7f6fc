"""Which words of a text are indexed and searched."""

import math
import re
from collections import Counter
from collections.abc import Callable

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

from activities.retrieval.bounds import QUERY_CHARACTERS, QUERY_TERMS
from reflection.text import well_formed

LONGEST_WORD = 60
# Scripts that write no spaces between words: each character is searched as a word.
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
CAMEL_CASE = re.compile(r"\b\w*[a-z0-9][A-Z]\w*\b")
HUMPED = re.compile("[a-z0-9][A-Z]")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def analyzer() -> TextAnalyzer:
    """Build what makes words: lower case, no accents, no English stop words, English stems.

    The stems of other languages' words come out alike in documents and queries.
    """
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(LONGEST_WORD))
        .filter(Filter.lowercase())
        .filter(Filter.ascii_fold())
        .filter(Filter.stopword("english"))
        .filter(Filter.stemmer("english"))
        .build()
    )


def searchable(text: str) -> str:
    """Add what the analyzer would not find: the words of camelCase, and those without spaces."""
    if not text.isascii():
        text = UNSPACED.sub(r" \g<0> ", text)
    joined = CAMEL_CASE.findall(text) if HUMPED.search(text) else []
    return " ".join([text, *(HUMP.sub(" ", each) for each in joined)]) if joined else text


def query_terms(text: str, analyze: Callable[[str], list[str]]) -> Counter[str]:
    """Count the terms of a query of any text, of its first 100,000 characters."""
    return Counter(analyze(searchable(well_formed(text[:QUERY_CHARACTERS]))))


def choose_terms(counts: Counter[str], frequency: Callable[[str], int], total: int) -> list[str]:
    """Choose at most 64 terms: those that are rare in the documents and frequent in the query.

    `frequency` is in how many of the `total` passages a term is; one that is in none is left out.
    """
    weights = {
        term: (1 + math.log(count)) * math.log((total + 1) / found)
        for term, count in counts.items()
        if (found := frequency(term))
    }
    return sorted(weights, key=lambda term: (-weights[term], term))[:QUERY_TERMS]
