"""The criteria by which a draft is judged, their weights and presets; how complex a query is.

To add a preset, in this file: its name in `CriteriaPreset`, its criteria in `MEANINGS`, and in
`WEIGHT_OF_TWO` those that weigh twice. A criterion that asks for length or for citations goes into
`ASKS_FOR_LENGTH` or `ASKS_FOR_CITATIONS`: these sets tell guardrails what a draft must have, by the
names of its criteria. A new set takes a guardrail that reads it. Then add a row to the table in
tests/unit/critique/test_criteria.py, and the name to the list in docs/guide.md.
"""

import re
from math import fsum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from mull.request import Frozen
from mull.run import at_least

CriteriaPreset = Literal[
    "general",
    "cost_sensitive",
    "research",
    "code",
    "documentation",
    "support_reply",
    "competitive_analysis",
]


class Criterion(Frozen):
    """One thing that a draft is judged by.

    `name` is its key in the judge's reply, `weight` its relative weight in the overall score,
    above 0 and at most 100, and `meaning` the sentence that tells the judge what to look at.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    meaning: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
    weight: float = Field(default=1.0, strict=True, gt=0, le=100, allow_inf_nan=False)


GENERAL = {
    "completeness": (
        "It covers every part of what was asked, and leaves out nothing that matters."
    ),
    "correctness": "Its statements are true, and nothing in it contradicts itself.",
    "clarity": "It is easy to follow: ordered, precise, without filler or vague wording.",
}
MEANINGS: dict[CriteriaPreset, dict[str, str]] = {
    "general": GENERAL,
    "cost_sensitive": {name: GENERAL[name] for name in ("completeness", "correctness")},
    "research": {
        **GENERAL,
        "citation_coverage": "Every claim that needs support has a citation right at its place.",
        "source_quality": (
            "What it relies on is primary, current and independent, not hearsay or advertising."
        ),
    },
    "code": {
        "correctness": "The code does what was asked, and would run as it stands.",
        "efficiency": "Its use of time and memory is reasonable for the sizes to be expected.",
        "readability": "Names, structure and comments let another engineer follow it at once.",
        "edge_cases": (
            "Empty, huge, malformed and boundary inputs are handled, and errors are clear."
        ),
    },
    "documentation": {
        "accuracy": "Names, types, defaults, units and errors are those of the thing described.",
        "completeness": (
            "Every parameter, return value, error and limit that a caller meets is there."
        ),
        "examples": "Examples are complete, would work when copied, and show the common case.",
        "navigability": "A reader who looks for one fact finds it by headings, order and terms.",
    },
    "support_reply": {
        "resolution": "It answers what the customer asked, or says plainly what happens next.",
        "correctness": "What it promises or states of product, price and policy is true.",
        "tone": "It is courteous and takes the customer seriously, without empty phrases.",
        "actionability": "The steps that the customer must take are concrete, ordered and few.",
    },
    "competitive_analysis": {
        "coverage": "The competitors and dimensions that matter for the decision are all there.",
        "evidence": "Claims about competitors are dated and cited, and estimates are marked.",
        "comparability": "Competitors are compared by the same measures, side by side.",
        "balance": "Strengths of competitors and weaknesses of one's own are told as well.",
        "actionability": (
            "What follows for product, price or position is said, and from which finding."
        ),
    },
}
"""`general`, `cost_sensitive`, `research` and `code` are the chapter's sets, with equal weights.
`documentation`, `support_reply` and `competitive_analysis` answer its exercise 1."""

# Wrong API references, false promises and claims without evidence do more harm than the rest.
WEIGHT_OF_TWO: dict[CriteriaPreset, tuple[str, ...]] = {
    "documentation": ("accuracy",),
    "support_reply": ("resolution", "correctness"),
    "competitive_analysis": ("evidence",),
}
PRESETS: dict[CriteriaPreset, tuple[Criterion, ...]] = {
    preset: tuple(
        Criterion(
            name=name, meaning=meaning, weight=2 if name in WEIGHT_OF_TWO.get(preset, ()) else 1
        )
        for name, meaning in meanings.items()
    )
    for preset, meanings in MEANINGS.items()
}

# Guardrails know a preset, and a request's own criteria, by these names.
ASKS_FOR_LENGTH = frozenset(
    {"citation_coverage", "source_quality", "navigability", "comparability"}
)
"""Criteria that ask for length: of `research`, `documentation` and `competitive_analysis` alone."""
ASKS_FOR_CITATIONS = frozenset({"citation_coverage", "source_quality", "evidence"})
"""Criteria that ask for citations: of `research` and `competitive_analysis`."""


def overall(scores: dict[str, float], criteria: tuple[Criterion, ...]) -> float:
    """Average scores, 0 to 1 by criterion, by the criteria's weights."""
    weights = fsum(criterion.weight for criterion in criteria)
    weighted = fsum(scores[criterion.name] * criterion.weight for criterion in criteria)
    return rounded(weighted / weights)


def rounded(score: float) -> float:
    """Round away floating-point error: the mean of three scores of 0.1 is 0.1."""
    return round(score, 9)


def passes(score: float, threshold: float) -> bool:
    """Tell whether a score reaches a threshold; rounding may leave a weighted sum just below."""
    return at_least(score, threshold)


SIMPLE = 0.5
QUESTION_WORDS = 12

POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|dear \w+|please|kindly|ok|okay|so|now|quick question|"
    r"(?:can|could|would) you(?: please)? tell me|tell me|do you know)\b[,:!. ]*){0,4}",
    re.IGNORECASE,
)
GREETING = re.compile(
    r"(?:(?:hi|hello|hey|thanks|thank you|good (?:morning|afternoon|evening|night)|bye|goodbye|"
    r"ok|okay|great|cool|how are you)(?: there| all| everyone| again| very much)?[\s,.!?]*){1,3}",
    re.IGNORECASE,
)
ARITHMETIC = re.compile(
    r"(?:(?:what is|what's|whats|how much is|calculate|compute|solve|evaluate)\s+)?"
    r"(?=[^a-z]*\d)(?:[\d.,\s()+\-*/×÷−^%=√$€]|x(?=\s*\d)|plus|minus|times|divided by|mod|of)+\?*",
    re.IGNORECASE,
)
LOOK_UP = re.compile(
    r"(?:define|spell|translate|pronounce|(?:a |the )?(?:synonym|antonym|plural|definition|"
    r"meaning|translation|capital|past tense)s? (?:of|for)|how do (?:you|i) (?:say|spell)) "
    r"(?:the word )?['\"“”\u2018«»]?(?!(?:this|that|it|them|these|those|everything|all)\b)[\w-]+"
    r"['\"“”«»]?(?: (?:in|to|into|from) \w+(?: (?:in|to|into) \w+)?)?[?.!]*",
    re.IGNORECASE,
)
YES_OR_NO = re.compile(r"\b(?:yes or no|yes/no|true or false|true/false)\b", re.IGNORECASE)
MEASURED = "many|much|old|long|far|tall|big|high|deep|fast|heavy|large|often|wide"
CLOSED = re.compile(
    r"(?:(?:in|on|at|by|from|for|to|of) )?(?:who(?:se|m|'s)?|what(?:'s)?|when(?:'s)?|where(?:'s)?|"
    r"which|is|are|was|were|does|do|did|has|have|had|can(?! (?:you|we|i)\b)|"
    rf"how (?:{MEASURED}))\b",
    re.IGNORECASE,
)
ASKS_MORE = re.compile(
    rf"\b(?:why|how (?!{MEASURED})|explain|describe|discuss|should|would|could|if|because|whether|"
    r"versus|vs|better|worse|best|worst|differ\w*|similarit\w+|trade-?offs?|pros|cons|\w*advantages?|"
    r"benefits?|drawbacks?|implications?|impacts?|effects?|affects?|causes?|reasons?|consequences|"
    r"role|relationships?|steps?|ways?|approach\w*|methods?|challenges?|risks?|happens?|think|"
    r"opinion|ethical|but|while|examples?|strateg\w+|ist|sind|waren|bedeutet|het|een|dit)\b",
    re.IGNORECASE,
)
OTHER_CLAUSE = re.compile(r"[\n,:](?=.*\w)", re.DOTALL)
# A name or a sum that contains "and" is one thing: Pride and Prejudice, 3 and 4.
JOINED_NAME = re.compile(r"\b([A-Z]\w*|\d+) and (?=[A-Z]|\d)")
# The end of a sentence before another, the sign of a list item, or a joining word.
PART = re.compile(
    r"[?!](?=\s+\S)|(?<!\b[A-Z])(?<!\bMr)(?<!\bDr)(?<!\bMrs)\.(?=\s+[A-Z\d])|[。\uff1f\uff01;]"
    r"|^[ \t]{0,8}(?:[-*•]|\d{1,3}[.)]|[a-z]\))[ \t]+(?=\S)"
    r"|\b(?i:and|also|then|as well as|in addition|furthermore|plus|followed by|finally)\b",
    re.MULTILINE,
)


def complexity(query: str) -> float:
    """Estimate how complex a query is, 0 to 1; deterministic.

    Only what is recognisably simple, and in English, is 0.5 or below:

    | the whole query is | complexity |
    |---|---|
    | a greeting, or a sum | 0.1 |
    | a word to look up, spell or translate | 0.2 |
    | a question to be answered by yes or no, in these words, of at most 24 words | 0.3 |
    | one closed question (who, what, when, is, does, how many ...) of at most 12 words, \
which names no reasons, comparisons, choices or conditions | 0.2 + 0.02 a word, at most 0.44 |

    Everything else, including a bare "Explain recursion" and all text in other languages, starts
    at 0.55. Each of these adds to it, so more text never lowers the complexity:

    | what the query has | adds | at most |
    |---|---|---|
    | each further sentence or list item, each `and`, `also`, `then`, `;` | 0.03 | 0.15 |
    | its length in words | 0.3 for 200 | 0.3 |

    Time is linear in the length; only the first 20,000 characters count. Source: the chapter
    requires a complexity but gives no rule; the table is Mull's own.
    """
    text = query[:20_000].strip()
    simple = _simple(text)
    if simple is not None:
        return simple
    parts = min(0.15, 0.03 * len(PART.findall(text)))
    return round(0.55 + parts + 0.3 * min(1.0, len(text.split()) / 200), 4)


def _simple(text: str) -> float | None:
    asked = POLITE.sub("", text.replace("\u2019", "'"), count=1) or text
    words = len(asked.split())
    if not asked or words > 2 * QUESTION_WORDS or len(asked) > 300:
        return None
    if GREETING.fullmatch(asked) or GREETING.fullmatch(text) or ARITHMETIC.fullmatch(asked):
        return 0.1
    if LOOK_UP.fullmatch(asked):
        return 0.2
    if YES_OR_NO.search(asked) and not ASKS_MORE.search(asked):
        return 0.3
    if not 1 < words <= QUESTION_WORDS or not CLOSED.match(asked):
        return None
    one_name = JOINED_NAME.sub(r"\1 ", asked)
    more = any(sign.search(one_name) for sign in (ASKS_MORE, PART, OTHER_CLAUSE))
    return None if more else round(0.2 + 0.02 * words, 2)
