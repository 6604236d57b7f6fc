"""A draft that refuses to answer."""

import re

from reflection.critique.guardrails.prose import fold, without_code
from reflection.critique.guardrails.registry import Checked, Finding, guardrail

CAP = 0.2
LONGEST = 3_000
MOST_OTHER_WORDS = 40
FEW_OTHER_WORDS = 8

CANNOT = (
    r"(?:can ?not|can't|cant|won't|will not|couldn't|could not|am unable to|'m unable "
    r"to|am not able to"
    r"|'m not able to|am not (?:allowed|permitted|comfortable)|'m not (?:allowed|"
    r"permitted|comfortable)"
    r"|must decline|have to decline|need to decline|refuse|decline to|not going to|do "
    r"not have the ability)"
)
MACHINE = (
    r"(?:an? )?(?:ai|artificial intelligence|(?:large )?language model|llm|chatbot)"
    r"(?: (?:language )?(?:model|assistant|system))?"
)
STRONG = re.compile(
    rf"\bi ?{CANNOT}(?: \w+){{0,4}} (?:help|assist|comply|fulfil\w*|respond|answer|"
    rf"engage|do (?:that|this))\b"
    r"(?! (?:but|to) )"
    rf"|\bas {MACHINE}\b.{{0,80}}\b{CANNOT}"
    rf"|\bi ?{CANNOT}.{{0,60}}\b(?:request|guidelines|policy|policies|programming|as an? ai)\b"
    r"|\b(?:against|violates?) (?:my|our|the|openai|anthropic)(?:'s)? (?:\w+ "
    r")?(?:guidelines|polic\w+|programming)"
    r"|\b(?:this|that|your|the) (?:request|question|query) (?:can ?not|can't|won't) be \w+"
    r"|\bi(?:'d| would) (?:rather|prefer) not (?:answer|to answer|help|say|discuss|respond)"
    r"|\bi must (?:respectfully |politely )?(?:decline|refuse)"
    r"|\b(?:unable|not able) to (?:help|assist|comply|fulfil\w*|answer)(?: you)?(?: "
    r"with)?(?: (?:this|that|your))"
    r"|\b(?:kann ich|ich kann|darf ich)\b.{0,60}\bnicht (?:\w+ )?(?:helfen|"
    r"weiterhelfen|beantworten|erfüllen|"
    r"unterstützen|nachkommen)|\bals (?:eine? )?ki\b.{0,60}\bnicht\b"
    r"|\bje (?:ne |n')(?:peux|suis)(?: pas)?.{0,40}\b(?:aider|répondre|assister|satisfaire|fournir)"
    r"|\ben tant (?:qu'|que )(?:ia|intelligence artificielle|modèle).{0,60}\bne\b"
    r"|\b(?:no puedo|no me es posible)(?: \w+){0,3} (?:ayudar\w*|responder\w*|cumplir|"
    r"asistir\w*|proporcionar)"
    r"|\bcomo (?:una? )?(?:ia|inteligencia artificial|modelo de lenguaje).{0,60}\bno\b"
    r"|\bnon posso aiutar|\bnão posso ajudar|抱歉.{0,8}(?:无法|不能)|申し訳.{0,20}できません"
)
WEAK = re.compile(
    rf"\bi ?{CANNOT}(?: \w+){{0,3}} (?:provide|create|generate|write|discuss|share|"
    rf"give|complete|produce|"
    r"support|participate|continue|offer|make|talk|advise|recommend|tell)\b"
)
FILLER = re.compile(
    r"sorry|apolog|regret|unfortunately|thank you|thanks for|great question|good "
    r"question|illegal|harmful|"
    r"unethical|ethical|safety|guidelines|polic|sensitive|inappropriate|consult|"
    r"professional|qualified|"
    r"feel free|let me know|happy to|glad to|anything else|another (?:topic|question)|"
    r"something else|"
    r"important to|encourage|understand (?:that|your|this)|appreciate|hope you|respect|"
    r"instead,? i can|"
    r"entschuldig|leid|désolé|lo siento|perdón|^\W*(?:hello|hi|dear|hey|sure|of course|hmm)\b"
)
SENTENCE = re.compile(r"[^.!?\n。\uff01\uff1f]+[.!?。\uff01\uff1f]*")
QUOTED = re.compile(r"(?<!\w)(\"[^\"\n]{0,500}\"|'[^'\n]{3,500}'(?!\w))")
LIST_ITEM = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S", re.MULTILINE)
MARKUP = re.compile(r"[*_~#>`]+")
ASKED_FOR = re.compile(
    r"\b(?:refus\w+|declin\w+|reject\w+|turn(?:ing)? down|say(?:ing)? no|cannot help|"
    r"can't help|apolog\w+|jailbreak\w*)\b"
)


@guardrail("refusal", default=True)
def refusal(checked: Checked) -> Finding | None:
    """Cap a draft that as a whole declines to answer.

    It does where it says that it cannot help, answer or comply, or that it cannot as a language
    model, and has at most 40 words beside that, apologies, offers and warnings; or where it cannot
    write or provide something, and has at most 8. A quoted refusal is none, and neither is one
    that the query asks for. English, and plain forms of German, French, Spanish and four others.
    """
    if len(checked.draft) > LONGEST or ASKED_FOR.search(fold(checked.query[:4_000]).casefold()):
        return None
    text = _spoken(checked.draft)
    sentences = [" ".join(each.split()) for each in SENTENCE.findall(text)]
    strong = any(STRONG.search(each) for each in sentences)
    if not strong and not any(WEAK.search(each) for each in sentences):
        return None
    most = MOST_OTHER_WORDS if strong else FEW_OTHER_WORDS
    others = sum(len(each.split()) for each in sentences if not _belongs(each))
    if others > most or len(LIST_ITEM.findall(text)) > 1 or "```" in checked.draft:
        return None
    return Finding(
        CAP, "the draft declines to answer: answer what can be answered, and say what cannot"
    )


def _spoken(draft: str) -> str:
    text = MARKUP.sub("", without_code(fold(draft))).casefold().strip()
    whole = text.strip("\"' ")
    return QUOTED.sub("", whole if whole != text and '"' not in whole else text)


def _belongs(sentence: str) -> bool:
    return any(each.search(sentence) for each in (STRONG, WEAK, FILLER))
