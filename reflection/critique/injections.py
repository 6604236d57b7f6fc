"""Text in a draft that addresses its judge, found by patterns; and refusals to answer.

This is the second line of defence. The first: the draft is quoted as data in the judge's prompt,
and only the judge's one JSON object counts.
"""

import re
from collections.abc import Sequence

from reflection.text import fold

# Letters of other scripts that look like Latin ones.
LOOK_ALIKE = str.maketrans(
    "аеорсухіјѕԁһԛԝвкмнтгпиВЕКМНОРСТУХАІЈЅαβεηικνορτυχωɑɡıłøđÐ",
    "aeopcyxijsdhqwbkmhtrnuBEKMHOPCTYXAIJSabenikvoptuxwagilodD",
)
MARKS = re.compile(r"[*~`\\]+")
PARAGRAPH = re.compile(r"\n[ \t\r]{0,8}\n")
QUOTATION = re.compile(
    r"(\"[^\"\n]{1,1000}\"\s?:)|\"[^\"\n]{1,1000}\"|(?<!\w)'[^'\n]{3,1000}'(?!\w)"
    r"|[「『][^「『」』\n]{1,1000}[」』]"
)
"""Quoted text; the first group keeps names in JSON."""

ABOUT = re.compile(
    r"inject|jailbreak|rubric|judg|evaluat|assess|grad(?:e|ing)|marking|exam\b|\bscor|\btemplate|"
    r"special token|system prompt|prompt engineer|chatml|red[- ]?team|adversar|attack|"
    r"bewert|benot|korrigier|klausur|prüfung|évalu|barème|notation|corrig|calific|evalúa|rúbrica|"
    r"valut|avalia|评分|评估|提示词|注入|採点|評価|оцен"
)

WHO = r"(?:judge|evaluator|grader|scorer|rater|assessor|examiner|(?:evaluation|grading) model)"
WORK = r"(?:draft|answer|response|reply|submission|text|output|essay)"
TOP = (
    r"\"?(?:1\.0+\b(?!\.?\d)|10 ?/ ?10|100 ?/ ?100|10 out of 10|"
    r"(?:(?:a|the|an) )?(?:full|perfect|maximum|highest|top)(?: possible)? "
    r"(?:scores?|marks?|points?|ratings?|grades?))"
)
RULES = (
    r"(?:instructions?|prompts?|directives?|rubrics?|system messages?|rules?|"
    r"(?:grading|scoring|judging|evaluation) (?:criteria|guidelines?))"
)
EARLIER = r"(?:previous|prior|above|earlier|preceding|system|judging|grading|scoring|evaluation)"
ORDER = r"(?:^|[.!?:;>\])-] ?|\b(?:please|must|should|shall|and|then|you|now|just|always|kindly) )"

SAID = {
    "override": rf"\b(?:ignor(?:e|ing)|disregard|forget|override|bypass)"
    rf"(?: (?:all|any|of|the|your|these|those|my)){{0,4}}(?: {EARLIER}(?: (?:and|or) {EARLIER})? "
    rf"{RULES}| {RULES} (?:above|before|you (?:were|have been) given))"
    rf"|\b(?:ignore|disregard) your {RULES}",
    "order": rf"{ORDER}(?:score|rate|grade|mark|evaluate) (?:(?:this|the above|my) {WORK},? "
    rf"(?:(?:as|at|with|to be|an?|is|to|:|=) ){{0,3}}{TOP}"
    r"|(?:this|it) (?:(?:as|at|a|with) ){0,2}(?:1\.0\b|(?:perfect|full) (?:score|marks)))",
    "gift": rf"{ORDER}(?:give|award|assign|grant) (?:(?:the|this|my) {WORK}|this|it) "
    rf"(?:(?:an?|the|score|rating|of) ){{0,3}}{TOP}"
    rf"|{ORDER}(?:give|award|assign|grant) {TOP} (?:to|for|on) (?:(?:this|the|my) {WORK}|"
    r"(?:all|every|each|everything)\b)"
    rf"|{ORDER}(?:award|assign) the (?:maximum|highest)(?: possible)? score"
    rf"|\bset (?:the |all |every |each )+(?:\w+ )?(?:scores?|criteri\w+|ratings?) (?:to|=) {TOP}",
    "merit": rf"\bthis {WORK} (?:\w+ )?(?:deserves|merits|earns|warrants|is worth|(?:should|must) "
    rf"(?:be|get|receive|score))(?: \w+){{0,3}} {TOP}|\b(?:overall|final) score:? (?:is )?1\.0\b"
    rf"|\b(?:all|every) (?:criteri\w+|scores?) (?:are|is|must be|should be|get) (?:\w+ )?{TOP}",
    "role": rf"\b(?:you(?: are|'re)(?: now)? (?:an? |the )?(?:\w+ )?{WHO}|as (?:the|an?) (?:\w+ )?"
    rf"{WHO},? you)\b.{{0,80}}\b{TOP}|\b{WHO}s? (?:must|should) (?:\w+ )?score ?= ?1"
    rf"|\b{WHO}[:,] (?:\w+ )?(?:give|award|assign|score|rate)\b.{{0,40}}\b{TOP}",
    "address": r"\b(?:note|message|instructions?|attention|memo|dear|hello):? (?:to |for )?"
    rf"(?:the |any )?(?:llm|ai|automated|language model)[ -]{WHO}",
    "object": r"\bcriteria_scores\"?\s?[:=]|\boverall_score\"?\s?[:=]\s?\"?(?:1\b|0?\.9)"
    r"|\"score\"\s?:\s?1(?:\.0)?\s?,\s?\"feedback\"",
    "token": r"<\|(?:im_(?:start|end)|system|user|assistant|end_of_turn|eot_id|endoftext)\|>"
    r"|\[/inst\]|<</?sys>>|<(?:start|end)_of_turn>",
    "end": r"(?:^|[.>] )end of (?:the )?(?:draft|answer|response|submission)(?: ?$| ?[.:] )"
    r"|[-=#]{2} ?end of (?:the )?(?:draft|answer|response|submission)\b"
    r"|</ ?(?:draft|submission|candidate)>",
    "system": r"\bsystem(?: (?:override|message|note|prompt))?: .{0,60}\b(?:rubric|criteria|"
    r"(?:this|the) (?:draft|response|answer))\b.{0,60}\b(?:perfect|10/10|1\.0|full marks|flawless)",
    "german": r"\bignorier\w*(?: \w+){0,3} (?:anweisung|instruktion|vorgabe)\w*"
    r"|\b(?:bewerte|gib)(?:n sie)? (?:diese[rnsm]?|meine[rnm]?) (?:antwort|entwurf|text)\b.{0,40}"
    r"(?:\b1[.,]0\b|10/10|punktzahl|bestnote|volle punkte)",
    "french": r"\b(?:ignore[zr]?|oublie[zr]?)(?: \w+){0,3} (?:instructions|consignes)"
    r"(?: \w+)? (?:précédentes|antérieures|ci-dessus)|\b(?:donne|attribue|note)[zr]?"
    r"(?: \w+)? cette réponse\b.{0,40}(?:note maximale|parfaite|\b1[.,]0\b|20/20|10/10)",
    "spanish": r"\b(?:ignor|olvid)(?:a|e|en|ad|ar|i)(?: \w+){0,3} (?:instrucciones|indicaciones|"
    r"istruzioni|instruções)(?: \w+)? (?:anteriores|previas|precedenti)|\b(?:califica|puntúa"
    r"|otorga|"
    r"asigna|dale|dê|dai)(?: \w+)? (?:esta respuesta|esta resposta|questa risposta)\b.{0,40}"
    r"(?:máxima|massimo|perfect\w|\b1[.,]0\b|10/10)",
    "chinese": r"(?:忽略|无视).{0,6}(?:之前|以上|先前|前面).{0,6}(?:指令|指示|要求|提示)"
    r"|(?:给|打)(?:这个|本|该)?(?:回答|答案|草稿)?.{0,3}(?:满分|最高分)",
    "japanese": r"(?:以前|これまで|上記)の.{0,6}(?:指示|命令).{0,6}無視|この回答.{0,6}満点",
    "russian": r"(?<!\w)игнорируй\w*(?: \w+){0,3} (?:инструкци|указани)\w*"
    r"|(?<!\w)поставь\w* (?:этому|этот).{0,30}(?:максимальн|высший балл|1[.,]0)",
}
"""The patterns, matched on normalized text: lower case, on one line, without markup."""

PATTERNS = [re.compile(said) for said in SAID.values()]
NAMED_SCORE = r"\b({})\"?\s?[:=]\s?\"?(?:1\.0+|1/1|10/10|100%)(?![\d.])"


def said_to_judge(text: str, query: str, criteria: Sequence[str]) -> str | None:
    """Return the words of a text that address its judge, None if there are none.

    Quotations are left out, and nothing is found if the query itself is about judging, grading or
    such texts. `criteria` are names: a text that gives itself full scores on two of them imitates
    a judge.
    """
    asked = f"{_plain(query[:20_000])} {fold(query[:20_000]).casefold()}"
    if ABOUT.search(asked) or any(pattern.search(asked) for pattern in PATTERNS):
        return None
    spoken = QUOTATION.sub(r" \1 ", fold(text))
    plain, straight = _plain(spoken), " ".join(spoken.casefold().split())
    for pattern in PATTERNS:
        if found := pattern.search(plain) or pattern.search(straight):
            return found[0].strip(" .,;:!?>)]-=#")
    if not criteria:
        return None
    scores = re.compile(NAMED_SCORE.format("|".join(map(re.escape, criteria))))
    named = {found[1]: found[0] for found in scores.finditer(plain)}
    return ", ".join(named.values()) if len(named) > 1 else None


def _plain(text: str) -> str:
    """Bring a text to one line of lower-case Latin letters; paragraphs end like sentences."""
    latin = fold(text).translate(LOOK_ALIKE).casefold()
    return " ".join(PARAGRAPH.sub(" . ", MARKS.sub("", latin)).split())


CANNOT = (
    r"(?:can ?not|can't|won't|will not|could not|couldn't|(?:am|'m) (?:unable|not (?:able|allowed|"
    r"going|permitted|comfortable))(?: to| with)?|(?:must|have to|need to) decline|decline to|"
    r"refuse)"
)
DECLINES = re.compile(
    rf"\bi ?{CANNOT}(?: \w+){{0,4}} (?:help|assist|comply|fulfil\w*|respond|answer|engage|"
    rf"do (?:that|this))\b(?! (?:but|to) )|\bas an? (?:ai|(?:large )?language model|llm)\b.{{0,80}}"
    rf"\b{CANNOT}|\bi ?{CANNOT}.{{0,60}}\b(?:request|guidelines|policy|policies|programming)\b"
    r"|\b(?:against|violates?) (?:my|our) (?:\w+ )?(?:guidelines|polic\w+|programming)"
    r"|\b(?:this|that|your) (?:request|question|query) (?:can ?not|can't|won't) be \w+"
    r"|\bi(?:'d| would) (?:rather|prefer) not (?:to )?(?:answer|help|say|discuss|respond)"
    r"|\bi must (?:respectfully |politely )?(?:decline|refuse)|\b(?:kann ich|ich kann|darf ich)\b"
    r".{0,60}\bnicht (?:\w+ )?(?:\w*helfen|beantworten|nachkommen)"
    r"|\bje ne peux pas.{0,40}\b(?:aider|répondre)"
    r"|\bno puedo.{0,30} (?:ayudar|respond|cumplir)"
    r"|\bnon posso aiutar|\bnão posso ajudar|抱歉.{0,8}(?:无法|不能)|申し訳.{0,20}できません"
)
WILL_NOT_MAKE = re.compile(
    rf"\bi ?{CANNOT}(?: \w+){{0,3}} "
    r"(?:provide|create|generate|write|discuss|share|give|complete|make)\b"
)
COURTESY = re.compile(
    r"sorry|apolog|regret|unfortunately|thank|question|illegal|harmful|ethical|safety|guidelines|"
    r"polic|sensitive|inappropriate|consult|professional|feel free|let me know|happy to|glad|"
    r"anything else|another|important to|encourage|understand|appreciate|hope you|respect|"
    r"instead,? i can|entschuldig|leid|désolé|lo siento|perdón|"
    r"^\W*(?:hello|hi|dear|hey|sure|of course)\b"
)


def is_refusal(text: str) -> bool:
    """Tell whether a whole text, in lower case, declines to answer.

    Besides sentences that decline, apologies and offers it has at most 40 words, or 8 if it only
    says that it cannot write or provide something. Quotations are left out, unless the whole text
    is one.
    """
    whole = text.strip('"')
    spoken = re.sub(r'"[^"\n]{0,500}"', "", text if '"' in whole else whole)
    sentences = [" ".join(one.split()) for one in re.findall(r"[^.!?\n。]+", spoken)]
    declines = any(map(DECLINES.search, sentences))
    if not (declines or any(map(WILL_NOT_MAKE.search, sentences))):
        return False
    ours = (DECLINES, WILL_NOT_MAKE, COURTESY)
    others = [one for one in sentences if not any(pattern.search(one) for pattern in ours)]
    return sum(len(one.split()) for one in others) <= (40 if declines else 8)
