"""How complex a query is, estimated from its words alone."""

import re

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
