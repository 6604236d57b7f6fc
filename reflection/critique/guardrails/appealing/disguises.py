"""A text as a model may read it, though its letters are others: one plain form for patterns."""

import re

from reflection.critique.guardrails.prose import fold

LOOK_ALIKE = str.maketrans(
    "аеорсухіјѕԁһԛԝвкмнтгпиВЕКМНОРСТУХАІЈЅαβεηικνορτυχωɑɡıłøđÐ",
    "aeopcyxijsdhqwbkmhtrnuBEKMHOPCTYXAIJSabenikvoptuxwagilodD",
)
DIGITS = str.maketrans("013457@$", "oieastas")
MIXED = re.compile(r"(?=[a-z0-9@$]{0,30}[a-z])(?=[a-z]{0,30}[0-9@$])[a-z0-9@$]{3,30}")
MARKS = re.compile(r"[*~`\\]+|</?(?:b|i|em|strong|span|u|p|br)\b[^<>]{0,100}>")
SPACED_OUT = re.compile(r"(?<![^\W_])(?:[^\W_][ .\-_·|/,]{1,3}){7,400}[^\W_](?![^\W_])")
PARAGRAPH = re.compile(r"\n[ \t\r]{0,8}\n")
NOT_LETTER = re.compile(r"[^a-z0-9]+")
ACCENTS = re.compile("[\u0300-\u036f]+")


def undisguised(text: str) -> str:
    """Fold case, spacing, markup and letters that look like Latin ones."""
    folded = ACCENTS.sub("", fold(text).translate(LOOK_ALIKE)).casefold()
    # An order at the head of a paragraph is at the start of a sentence.
    return " ".join(PARAGRAPH.sub(" . ", MARKS.sub("", folded)).split())


def letters_for_digits(plain: str) -> str:
    """Read digits in the midst of words as the letters that they stand for."""
    return MIXED.sub(lambda word: word[0].translate(DIGITS), plain)


def spaced_out(plain: str) -> str:
    """Join what is written with something between each two letters; empty where nothing is."""
    return " ".join(NOT_LETTER.sub("", run[0]) for run in SPACED_OUT.finditer(plain))
