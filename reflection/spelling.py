"""The words of a text in one spelling, however they are written."""

import re
from unicodedata import normalize

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
QUOTES = str.maketrans("\u2018\u2019\u201a\u201b\u2032\u00b4“”„‟«»", "''''''\"\"\"\"\"\"")
# Scripts without spaces between words: each character is a word.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:['.,:][^\W_{UNSPACED}]+)*")


def fold(text: str) -> str:
    """Bring spellings of one character to one: NFKC, straight quotes, nothing invisible."""
    if text.isascii():
        return text
    return normalize("NFKC", INVISIBLE.sub("", text)).translate(QUOTES)


def words(text: str) -> list[str]:
    """List the words in lower case; in scripts without spaces each character is one."""
    return WORD.findall(fold(text).casefold())
