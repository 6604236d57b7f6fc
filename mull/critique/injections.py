"""What a draft says to its judge: orders, roles, and scores of its own."""

import re
from collections.abc import Sequence

from mull.critique.forms import Reading
from mull.text import fold

# A query that names one of these is about judging, or about what language models read.
ABOUT = re.compile(
    r"inject|jailbreak|rubric|judg|evaluat|assess|grad(?:e|ing)|\bscor|\brat(?:e|ing)|marking|"
    r"exam\b|templat|token|prompt|chat|llm|language model|llama|qwen|mistral|gpt|attack|bewert|"
    r"benot|klausur|prüfung|évalu|barème|calific|提示词|注入|评分|採点|оцен"
)
# The first group keeps the names of JSON.
QUOTATION = re.compile(
    r"(\"[^\"\n]{1,1000}\"\s?:)|\"[^\"\n]{1,1000}\"|(?<!\w)'[^'\n]{3,1000}'(?!\w)"
    r"|[「『][^「『」』\n]{1,1000}[」』]"
)
WORK = r"(?:draft|answer|response|reply|submission)"
TOP = (
    r"\"?(?:1\.0+\b(?!\.?\d)|10 ?/ ?10|10 out of 10|(?:(?:a|the) )?"
    r"(?:full|perfect|maximum|highest|top)(?: possible)? (?:scores?|marks?|points?|ratings?))"
)
SAID_TO_JUDGES = {
    "override": r"\b(?:ignor(?:e|ing)|disregard|forget|override) (?:all |the )?(?:\w+ ){0,2}"
    r"(?:(?:previous|prior|above|earlier|system)(?! rule)|your|judging|grading|scoring|evaluation) "
    r"(?:instruction|prompt|rubric|rule|criteria)(?!\w* (?:if|when)\b)",
    "override above": r"\bignor(?:e|ing) (?:all )?the (?:instructions|rules|criteria) above\b",
    "override abroad": r"\bignorier\w* (?:\w+ ){0,3}anweisungen\b|忽略.{0,10}指令"
    r"|\bignorez (?:\w+ ){0,3}(?:instructions|consignes)\b",
    "order": rf"\b(?:score|rate|grade|mark|give|award|assign) (?:(?:this|the|my) {WORK},? "
    rf"(?:\w+ ){{0,3}}{TOP}|this 1\.0\b|the (?:maximum|highest) score of 1)",
    "gift": rf"\b(?:score|give|award|assign) {TOP} (?:to|for|on) (?:(?:this|the|my) {WORK}|"
    r"(?:all|every|each) criteri|everything)",
    "claim": r"\b(?:overall|final) score:? (?:is )?1\.0\b(?! out)"
    rf"|\bcriteria (?:are|must be) {TOP}",
    "role": r"\b(?:you are|you're|as the)(?: now)? (?:an? |the )?(?:\w+ )?"
    rf"(?:judge|evaluator|grader|scorer|rater|assessor|examiner)\b.{{0,80}}\b{TOP}",
    "address": r"\b(?:to|for) (?:the |any )?(?:llm|ai|automated)[ -](?:judge|evaluator|grader)",
    "object": r"\bcriteria_scores\"?\s?[:=]|\"score\"\s?:\s?1(?:\.0)?\s?,\s?\"feedback\"",
    "token": r"<\|(?:im_start|im_end|system|eot_id)\|>|\[/inst\]|<</?sys>>|<end_of_turn>",
    "end": r"(?:^|[.>] |[-=#]{2} ?)end of (?:the )?(?:draft|submission)\b|</draft>",
}
"""Patterns for a text on one line in lower case, without markup."""

TO_JUDGES = re.compile("|".join(SAID_TO_JUDGES.values()))


def told_judge(query: str, reading: Reading, criteria: Sequence[str]) -> str | None:
    """Return what a draft tells its judge; None if nothing, or if the query is about such texts.

    Code and quotations are examples. Full scores for two of the `criteria` imitate a judge.
    """
    if ABOUT.search(query.casefold()) or TO_JUDGES.search(_plain(query)):
        return None
    text = _plain(QUOTATION.sub(r" \1 ", f"{reading.text}\n\n{reading.hidden}"))
    names = "|".join(map(re.escape, criteria)) or r"\Z."
    scores = re.finditer(rf"\b({names})\"?\s?[:=]\s?\"?(?:1\.0+|1/1|10/10|100%)(?![\d.])", text)
    said = {score[1]: score[0] for score in scores}
    found = TO_JUDGES.search(text)
    if found:
        return found[0].strip(" .,;:!?>)]-=#")
    return ", ".join(said.values()) if len(said) > 1 else None


def _plain(text: str) -> str:
    """Bring a text to one line in lower case; paragraphs end like sentences."""
    bare = re.sub(r"[*~`\\]+", "", fold(text).casefold())
    return " ".join(bare.replace("\n\n", " . ").split())
