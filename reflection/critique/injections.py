"""Text in a draft that addresses its judge, found by a few patterns.

This is the second line of defence. The first: the draft is quoted as data in the judge's prompt,
and only the judge's one JSON object counts.
"""

import re
from collections.abc import Sequence

from reflection.text import fold

QUOTATION = re.compile(
    r"(\"[^\"\n]{1,1000}\"\s?:)|\"[^\"\n]{1,1000}\"|(?<!\w)'[^'\n]{3,1000}'(?!\w)"
    r"|[「『][^「『」』\n]{1,1000}[」』]"
)
"""Quoted text; the first group keeps names in JSON."""

ABOUT = re.compile(
    r"inject|jailbreak|rubric|judg|evaluat|assess|grad(?:e|ing)|marking|exam\b|\bscor|\brat(?:e|ing)"
    r"|templat|token|prompt|chat|llm|language model|llama|qwen|mistral|gpt|adversar|attack|bewert"
    r"|benot|klausur|prüfung|évalu|barème|calific|提示词|注入|评分|採点|оцен"
)
"""What a query says that is about judging, or about the texts that language models read."""

WHO = r"(?:judge|evaluator|grader|scorer|rater|assessor|examiner)"
WORK = r"(?:draft|answer|response|reply|submission)"
TOP = (
    r"\"?(?:1\.0+\b(?!\.?\d)|10 ?/ ?10|100 ?/ ?100|10 out of 10|(?:(?:a|the) )?"
    r"(?:full|perfect|maximum|highest|top)(?: possible)? (?:scores?|marks?|points?|ratings?))"
)
RULES = r"(?:instructions?|prompts?|directives?|rubrics?|rules?|(?:grading|scoring) criteria)"
EARLIER = r"(?:previous|prior|above|earlier|preceding|system|judging|grading|scoring|evaluation)"
GIVE = r"\b(?:give|award|assign|grant)"

SAID = {
    "override": r"\b(?:ignor(?:e|ing)|disregard|forget|override)(?: (?:your|(?:\w+ ){0,3}"
    rf"{EARLIER}) {RULES}\b(?! (?:if|when)\b)| (?:all|the) {RULES} above\b)",
    "order": rf"\b(?:score|rate|grade|mark|evaluate) (?:this|the above|my) (?:{WORK},? )?"
    rf"(?:\w+ ){{0,3}}{TOP}",
    "gift": rf"{GIVE} (?:the|this|my) {WORK} (?:\w+ ){{0,3}}{TOP}|{GIVE} {TOP} "
    rf"(?:to|for|on) (?:(?:this|the|my) {WORK}|(?:all|every|each) criteri|everything)"
    rf"|{GIVE} the (?:maximum|highest) score of 1",
    "claim": rf"\b(?:all|every) (?:criteri\w+|scores?) (?:are|is|must be) (?:\w+ )?{TOP}"
    r"|\b(?:overall|final) score:? (?:is )?1\.0\b",
    "role": rf"\b(?:you are|you're|as the)(?: now)? (?:an? |the )?(?:\w+ )?{WHO}\b.{{0,80}}\b{TOP}",
    "address": r"\b(?:note|message|instructions?|attention):? (?:to |for )?(?:the |any )?"
    rf"(?:llm|ai|automated|language model)[ -]{WHO}",
    "object": r"\bcriteria_scores\"?\s?[:=]|\"score\"\s?:\s?1(?:\.0)?\s?,\s?\"feedback\"",
    "token": r"<\|(?:im_start|im_end|system|eot_id)\|>|\[/inst\]|<</?sys>>|<end_of_turn>",
    "end": r"(?:^|[.>] |[-=#]{2} ?)end of (?:the )?(?:draft|submission)\b|</draft>",
}
"""The patterns, matched on normalized text: lower case, on one line, without markup."""

PATTERNS = [re.compile(said) for said in SAID.values()]


def said_to_judge(text: str, query: str, criteria: Sequence[str]) -> str | None:
    """Return the words of a text that address its judge, None if there are none.

    Quotations are left out, and nothing is found if the query itself is about judging, grading or
    such texts. `criteria` are names: a text that gives itself full scores on two of them imitates
    a judge.
    """
    asked = _plain(query)
    if ABOUT.search(query.casefold()) or any(pattern.search(asked) for pattern in PATTERNS):
        return None
    plain = _plain(QUOTATION.sub(r" \1 ", fold(text)))
    for pattern in PATTERNS:
        if found := pattern.search(plain):
            return found[0].strip(" .,;:!?>)]-=#")
    names = "|".join(map(re.escape, criteria)) or r"\Z."
    scores = re.finditer(rf"\b({names})\"?\s?[:=]\s?\"?(?:1\.0+|1/1|10/10|100%)(?![\d.])", plain)
    named = {found[1]: found[0] for found in scores}
    return ", ".join(named.values()) if len(named) > 1 else None


def _plain(text: str) -> str:
    """Bring a text to one line in lower case; paragraphs end like sentences."""
    bare = re.sub(r"[*~`\\]+", "", fold(text).casefold())
    return " ".join(bare.replace("\n\n", " . ").split())
