"""What length a query wishes for, in its own words."""

import re

from reflection.critique.guardrails.prose import fold

# What is pasted into a long query wishes for nothing: its ends do.
END_CHARACTERS = 2_000
FEW_WORDS = 80
MOST_WORDS = 20_000
WORDS_A_PAGE = 250

COUNTED = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "fifty": 50,
    "hundred": 100,
    "a hundred": 100,
    "one hundred": 100,
    "two hundred": 200,
    "three hundred": 300,
    "five hundred": 500,
    "a thousand": 1000,
    "one thousand": 1000,
    "two thousand": 2000,
    "a": 1,
    "a single": 1,
    "single": 1,
}
NUMBER = r"(\d{1,3}(?:,\d{3})+|\d{1,6}|" + "|".join(sorted(COUNTED, key=len, reverse=True)) + ")"
AT_MOST = (
    r"(?:at most|up to|under|below|less than|fewer than|no more than|not more than|"
    r"maximum(?: of)?|max"
    r"|within|no longer than|höchstens|maximal|au plus|máximo)"
)
AT_LEAST = (
    r"(?:at least|minimum(?: of)?|min|no (?:less|fewer) than|not less than|more than|"
    r"over|exactly|about"
    r"|around|approximately|roughly|circa|~|in|with|mindestens|etwa|au moins|al menos|como mínimo)"
)
UNIT = r"(?:words|wörter|wörtern|mots|palabras|pages)"
PIECE = (
    r"(?:essay|article|report|story|post|text|summary|speech|review|paper|piece|letter|overview)"
)
SHORT = re.compile(rf"{AT_MOST} {NUMBER}[ -](?:words|characters|sentences|lines)")
LONG = re.compile(
    rf"(?:{AT_LEAST} |{PIECE} of (?:{AT_LEAST} )?|length(?: of|:)? (?:{AT_LEAST} )?|[,(;:.–-] ?|^)"
    rf"{NUMBER}(?:[ -](?:to|–|-)?[ -]?\d{{2,5}})? ({UNIT})\b(?: (?:long|minimum|or more|at least))?"
)
LONG_PIECE = re.compile(rf"{NUMBER}[ -](word|page)s?(?: (?!or\b)\w{{1,20}}){{0,3}} {PIECE}")
LONG_AFTER = re.compile(rf"{NUMBER} ({UNIT}) (?:long|minimum|or more|at least|at minimum)")
PARAGRAPHS = re.compile(rf"{NUMBER}[ -](?:different |full |long |separate )?paragraphs?\b")

NOT_WISHED = re.compile(
    r"(?:n't|not|no|never|without|more than|beyond|at least|than)(?: \w+){0,2} $"
)
LITTLE = re.compile(
    r"\b(?:(?:in|as|with|using|write|give me|exactly|only|just) (?:only |just |exactly |about )?"
    r"(?:a|an|one|1|two|2|three|3|a single|single) (?:short )?(?:sentence|line|word|"
    r"phrase|bullet)s?"
    r"|(?:one|single|1|two|three)-(?:sentence|line|word|liner|phrase)|one liner|in a few words"
    r"|in a nutshell|briefly|in brief|be brief|be concise|concisely|tl;?dr|yes or no|yes/no"
    r"|true or false|keep it (?:very )?(?:short|brief|concise)|short answer|as short as possible"
    r"|(?:just|only) (?:the )?(?:number|answer|name|word|result|letter|date|year|value|title)"
    r"|(?:answer|reply|respond) (?:with|by) (?:only|just|a single|one|the)|haikus?|limerick|couplet"
    r"|in einem (?:satz|wort)|ganz kurz|kurz und knapp|ja oder nein"
    r"|en une? (?:seule )?(?:phrase|mot|ligne)|brièvement|oui ou non"
    r"|en una (?:sola )?(?:frase|palabra|línea|oración)|brevemente|sí o no|si o no)\b"
)
LITTLE_THING = re.compile(
    r"\b(?:write|give|suggest|generate|create|propose|find|need|craft|make|compose|invent|think of|"
    r"come up with|provide|what is|what's|pick|choose)(?: me| us)?"
    r"(?: (?!essay|article|report|story|post|with|about|on)[\w'-]{1,20}){0,4}? "
    r"(?:titles?|names?|slogans?|taglines?|tweets?|headlines?|captions?|commit "
    r"messages?|regex(?:es)?"
    r"|regular expressions?|subject lines?|one-?liners?|synonyms?|antonyms?|acronyms?|usernames?"
    r"|hashtags?|mottos?|riddles?|jokes?|puns?|alt texts?|emojis?)\b"
)
CODE_THING = re.compile(
    r"\b(?:write|give|create|implement|show|code|need|fix|complete|provide)(?: me| us)?"
    r"(?: [\w'+#-]{1,20}){0,4}? (?:functions?|method|snippets?|sql|query|queries|shell "
    r"command|command|"
    r"macro|lambda|json|yaml|formula|css|script)\b"
)


def asks_for_little(query: str) -> bool:
    """Say whether the query wishes for a short answer: a sentence, a title, at most 80 words."""
    asked = _ends(query)
    if any(_count(found[1]) <= FEW_WORDS for found in SHORT.finditer(asked)):
        return True
    if any(not NOT_WISHED.search(asked[: found.start()][-40:]) for found in LITTLE.finditer(asked)):
        return True
    few = _named_words(asked)
    return LITTLE_THING.search(asked) is not None or (few is not None and few <= FEW_WORDS)


def asks_for_code(query: str) -> bool:
    """Say whether the query asks for a small piece of code or data, which is as long as it is."""
    return CODE_THING.search(_ends(query)) is not None


def demanded_words(query: str) -> int | None:
    """Return the number of words that the query demands, more than 80, or None."""
    named = _named_words(_ends(query))
    return named if named is not None and FEW_WORDS < named <= MOST_WORDS else None


def demanded_paragraphs(query: str) -> int | None:
    """Return the number of paragraphs that the query demands, 2 to 100, or None."""
    asked = _ends(query)
    for found in PARAGRAPHS.finditer(asked):
        before = asked[: found.start()][-40:]
        if 2 <= _count(found[1]) <= 100 and not re.search(
            rf"(?:{AT_MOST}|first|last|these|the) $", before
        ):
            return _count(found[1])
    return None


def _named_words(asked: str) -> int | None:
    for pattern in (LONG, LONG_PIECE, LONG_AFTER):
        for found in pattern.finditer(asked):
            if not re.search(rf"{AT_MOST} ?$", asked[: found.start(1)][-30:]):
                pages = found[2].startswith("page")
                return _count(found[1]) * (WORDS_A_PAGE if pages else 1)
    return None


def _count(number: str) -> int:
    return COUNTED.get(number) or int(number.replace(",", ""))


def _ends(query: str) -> str:
    whole = len(query) <= 2 * END_CHARACTERS
    ends = query if whole else f"{query[:END_CHARACTERS]} {query[-END_CHARACTERS:]}"
    return " ".join(fold(ends).casefold().split())
