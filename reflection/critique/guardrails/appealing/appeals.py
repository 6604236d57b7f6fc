"""What is said to a judge and to nobody else: patterns, each with its weight as evidence.

Each is matched against the plain form of `disguises.py`: lower case, one line, straight quotes.
A weight of 1 is enough alone, and 0.5 needs another.
"""

import re
from typing import NamedTuple


class Appeal(NamedTuple):
    """One way of speaking to a judge, and how much it weighs."""

    pattern: re.Pattern[str]
    weight: float


JUDGE = (
    r"(?:judge|evaluator|grader|scorer|rater|assessor|reviewer|examiner|"
    r"(?:evaluation|grading|scoring|judging) (?:model|system|bot|agent|assistant|ai|llm))"
)
MODEL = r"(?:(?:llm|ai|automated|automatic|language model|model|gpt|claude)[ -]){1,2}"
WORK = (
    r"(?:draft|answer|response|reply|text|submission|essay|output|work|one|document|"
    r"article|report|code)"
)
THIS = rf"(?:(?:this|the|my|the (?:above|following|present))(?: {WORK})?|it|me|us)"
TOP = (
    r"(?:1(?:\.0+)?(?![\d.,]*\d|/[02-9]|%| ?(?:to|-|–|out of) ?\d)|10 ?/ ?10|100 "
    r"?/ ?100|5 ?/ ?5|100 ?%|"
    r"10 out of 10|(?:(?:a|the|an) )?(?:(?:very )?(?:full|perfect|maximum|max|highest|"
    r"top|high|best|maximal)"
    r"(?: possible)? (?:scores?|marks?|points?|ratings?|grades?|credit)|score of 1(?:\.0+)?\b|"
    r"passing (?:score|grade|mark)))"
)
START = (
    r"(?:^|[.!?:;,\"'(\[<>{}=|#/-] ?|\b(?:please|must|should|shall|and|then|you|now|"
    r"just|simply|always|kindly) )"
)
RULES = (
    r"(?:instructions?|prompts?|directions?|directives?|commands?|rubrics?|criteria|"
    r"system messages?|"
    r"(?:grading|scoring|judging|evaluation) (?:rules?|guidelines?|scheme))"
)
EARLIER = (
    r"(?:previous|prior|above|earlier|preceding|foregoing|existing|original|system|"
    r"judging|grading|scoring|"
    r"evaluation|given|other|former|initial|all)"
)


def _appeals(weight: float, *patterns: str) -> list[Appeal]:
    return [Appeal(re.compile(each), weight) for each in patterns]


APPEALS: list[Appeal] = [
    *_appeals(
        1,
        r"\b(?:ignore|disregard|forget|override|overlook|bypass|do not follow|don't "
        r"follow|stop following)"
        rf"(?: (?:all|any|the|your|every|each|of|these|those|my|everything|and)){{0,4}} {EARLIER}"
        rf"(?: (?:and|or|of|the|your|given|previous|prior|above|system|judging|"
        rf"scoring)){{0,4}} {RULES}",
        rf"\b(?:ignore|disregard|forget|override)(?: (?:all|the|your)){{0,2}} {RULES}"
        r"(?: (?:above|before|so far|you (?:have been|were) given|that (?:came|come) before))",
        rf"\b(?:previous|prior|earlier) {RULES} (?:are|have been|is) (?:void|cancel|"
        rf"obsolete|superseded|no longer)",
        rf"{START}(?:score|rate|grade|mark|evaluate|assess|judge) {THIS},? "
        rf"(?:(?:as|at|with|to be|a|an|is|has|to|:|=|exactly|be) ){{0,3}}\"?{TOP}",
        rf"{START}(?:give|award|assign|grant|return|report)(?: a| the| out)? ?{THIS} "
        rf"(?:(?:the|an?|exactly|at least|only|overall|with|score|of|rating|:) ){{0,4}}\"?{TOP}",
        rf"{START}(?:give|award|assign|grant|output|return|report)(?: out)? (?:(?:only|"
        rf"a|an|the|exactly) ){{0,2}}"
        rf"{TOP} (?:to|for|on) (?:{THIS}|all|every|each|everything)\b",
        rf"\b(?:this|the|my) {WORK} (?:clearly |fully |certainly |truly )?(?:deserves|"
        rf"merits|earns|warrants|"
        r"should (?:be|get|receive|score)|must (?:be|get|receive|score)|is worth|ought "
        r"to (?:be|get|receive)|"
        rf"has (?:already )?been)(?: \w+){{0,3}}? {TOP}",
        rf"\byou(?: are|'re)(?: now)? (?:an? |the )?(?:\w+ ){{0,3}}?{JUDGE}\b.{{0,80}}\b{TOP}",
        rf"\b(?:note|message|instructions?|attention|memo|hint|request) (?:to|for):? "
        rf"(?:(?:the|any|all) )?{MODEL}{JUDGE}",
        rf"\b(?:dear|attention|hello|hey|hi),? (?:the )?{MODEL}{JUDGE}",
        r"\"?(?:criteria_scores|overall_score|criterion_scores)\"?\s?[:=]",
        r"\bscored?:? (?:of )?1(?:\.0+)? ?/ ?1(?:\.0+)?(?![\d.]*\d)",
        rf"\b{TOP} (?:for|on|to|in) (?:all|every|each)(?: of)?(?: the)? criteri",
        r"<\|[a-z_]{2,30}\|>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>",
        r"#{2,6} ?(?:system|assistant|human)(?: (?:message|prompt|note))?:",
        r"</ ?(?:draft|candidate|submission|text_to_judge|draft_to_judge|untrusted)(?:[ _-]\w+)?>",
        r"\bset (?:the |all |every |each )*(?:\w+ )?(?:scores?|criteri\w+|ratings?) "
        r"(?:to|as|=|at) \"?" + TOP,
        r"\b(?:system|developer|admin(?:istrator)?) (?:override|"
        r"mode)\b.{0,80}\b(?:scor|grad|rat|evaluat|pass)",
        rf"\b(?:all|every|each)(?: of the)? (?:criteri\w+|scores?) (?:must|should|shall|are to|to) "
        rf"(?:be|get|receive|is) (?:\w+ ){{0,3}}?{TOP}",
    ),
    *_appeals(
        0.5,
        rf"\b(?:note|message|instructions?|attention|memo|request) (?:to|for):? "
        rf"(?:(?:the|any|all) )?{JUDGE}s?\b",
        rf"\bdear {JUDGE}\b",
        rf"\byou(?: are|'re)(?: now)? (?:an? |the )?(?:\w+ ){{0,3}}?{JUDGE}\b|\bas "
        rf"(?:the|an?) (?:\w+ )?{JUDGE},? you\b",
        rf"{START}(?:give|award|assign|grant|output|return|respond with|reply with|"
        rf"score|report) (?:\w+ ){{0,3}}?{TOP}",
        rf"\b(?:overall|final|evaluation|evaluator|judge'?s?|quality|total) (?:score|"
        rf"rating|grade|verdict)"
        rf"\"?\s?(?:[:=]|is|of)\s?\"?{TOP}",
        r"\bscored?\"?\s?[:=]\s?\"?(?:1(?:\.0+)?|10|100)\b(?!\.?\d|%| ?(?:-|to|:) ?\d)",
        r"\"feedback\"\s?:",
        rf"\b{JUDGE}s? (?:must|should|shall|is to|are to|has to|have to|need to|needs to) ",
        r"(?:^|[.!?>] )(?:assistant|judge|evaluator|grader|reviewer|evaluation)\s?:",
        r"\b(?:your|the) (?:evaluation|verdict|feedback|score|judgement|judgment) "
        r"(?:must|should|shall|will|has to) "
        r"(?:be|say|read|show|contain)",
        r"\b(?:no (?:further )?(?:evaluation|revision|changes?|review) (?:is|are) "
        r"(?:needed|necessary|required)|"
        r"(?:skip|stop|end) (?:the |this |your )?(?:evaluation|grading|scoring|"
        r"judging)|evaluation (?:is )?complete)\b",
        r"\b(?:new|updated|revised|real|actual|special|hidden) (?:system "
        r")?(?:instructions?|prompt)\s?(?::|for (?:the|you))",
        r"\b(?:do not|don't|never) (?:deduct|penali[sz]e|lower|reduce|take off|"
        r"criticise|criticize|find fault)\b",
        r"\b(?:meets|satisfies|exceeds) (?:all|every)(?: of)?(?: the)? (?:\w+ )?criteri",
        r"#{2,6} ?(?:instruction|response|user)(?: prompt)?:|</?(?:system|"
        r"instructions?|evaluation|judge|grader)>",
        r"\b(?:has|have) (?:already )?been (?:\w+ )?(?:scored|graded|rated|evaluated|"
        r"approved) (?:\w+ ){0,6}?"
        rf"(?:as |at )?{TOP}",
        r"\b(?:my|the) job depends on|\bi(?:'ll| will) (?:lose my job|be fired|tip you)",
        rf"\b{MODEL}{JUDGE}\b",
    ),
]
"""English, in any disguise."""

OTHER_LANGUAGES = _appeals(
    1,
    r"ignorier\w*(?: \w+){0,3} (?:anweisung|instruktion|vorgabe)\w*",
    r"(?:bewerte|gib|vergib)\b.{0,60}(?:\b1[.,]0\b|10/10|punktzahl|bestnote|höchstnote|"
    r"volle punkte)",
    r"ignore[zr]?(?: \w+){0,3} (?:instructions|consignes)(?: \w+){0,2} (?:précédentes|"
    r"antérieures|ci-dessus)",
    r"(?:donne|attribue|note|évalue)[zr]?\b.{0,60}(?:note (?:maximale|parfaite)|"
    r"\b1[.,]0\b|20/20|10/10|tous les points)",
    r"ignor(?:a|e|en|ad|ar)(?: \w+){0,3} (?:instrucciones|indicaciones)(?: \w+){0,2} "
    r"(?:anteriores|previas)",
    r"(?:califica|puntúa|puntua|otorga|asigna|evalúa|dale|dame)\w*\b.{0,60}"
    r"(?:\b1[.,]0\b|puntuación (?:máxima|perfecta)|nota máxima|10/10)",
    r"ignor(?:a|e|i)(?: \w+){0,3} (?:istruzioni|instruções)(?: \w+){0,2} (?:precedenti|anteriores)",
    r"忽略.{0,8}(?:指令|指示|说明|提示|要求)|(?:给|打|评).{0,8}(?:满分|最高分|1\.0)",
    r"(?:以前|これまで|上記)の.{0,6}(?:指示|命令).{0,6}無視|満点",
    r"игнорируй\w*(?: \w+){0,3} (?:инструкци|указани)\w*|"
    r"поставь\w*.{0,40}(?:максимальн|высший балл|1[.,]0)",
)
"""The plain sentences of nine more."""

JOINED = _appeals(
    1,
    r"(?:ignore|disregard|forget)(?:all|any|the|your|of){0,4}(?:previous|prior|above|"
    r"earlier|preceding)+"
    r"(?:instruction|prompt|rule|criteri)",
    r"(?:score|rate|grade|mark)(?:this|it|the|my)(?:draft|answer|response|text)?(?:as|"
    r"at|a|with)?(?:10|1|full|perfect|100)",
    r"(?:give|award|assign)(?:this|it|me|the|a)*(?:draft|answer|response|text)?(?:the|a)?"
    r"(?:full|perfect|top|maximum|highest)(?:possible)?(?:score|mark|grade|rating|point)",
)
"""What is written with something between each two letters."""
