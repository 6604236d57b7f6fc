"""Text from outside, made safe to show: no control character acts, and nothing takes over a row.

Answers, reasons and errors come from models and people. Every place that shows them to a person
takes them through here; the exact text stays in the result.
"""

import re
from unicodedata import category, east_asian_width

SURROGATES = re.compile("[\ud800-\udfff]")

ESCAPE_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
JOINERS = "\u200c\u200d"


def well_formed(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 can hold, by U+FFFD."""
    return text if text.isascii() else SURROGATES.sub("\ufffd", text)


def neutral(text: str) -> str:
    """Replace what would act on a terminal or hide text; line ends and tabs stay.

    Control characters become their visible pictures (an escape is shown as U+241B), other
    controls, private characters and lone surrogates U+FFFD. Invisible format characters, which
    can turn the reading order around, are left out, but for the two joiners of scripts.
    """
    return "".join(_neutral(each) for each in text.replace("\r\n", "\n"))


def plain(text: str, most: int) -> str:
    """Return `text` on one line of at most `most` terminal columns, a cut shown as an ellipsis.

    It never has more than 2 * `most` characters, however many of them take no column.
    """
    head = text[: 16 * most + 256]
    line = " ".join(neutral(head).split())
    if len(head) == len(text) and width(line) <= most and len(line) <= 2 * most:
        return line
    return _cut(line, most)


def width(text: str) -> int:
    """Count the columns that `text` takes in a terminal."""
    return len(text) if text.isascii() else sum(_columns(each) for each in text)


def padded(text: str, columns: int) -> str:
    """Fill `text` with spaces up to `columns` terminal columns."""
    return text + " " * (columns - width(text))


def _neutral(character: str) -> str:
    if " " <= character < "\x7f" or character in "\n\t":
        return character
    kind = category(character)
    if kind == "Cc":
        return ESCAPE_PICTURES.get(ord(character), "\ufffd")
    if kind == "Cf":
        return character if character in JOINERS else ""
    return "\ufffd" if kind in {"Cs", "Co"} else character


def _columns(character: str) -> int:
    if category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _cut(line: str, most: int) -> str:
    kept, room = "", most - 1
    for character in line[: 2 * most - 1]:
        room -= _columns(character)
        if room < 0:
            break
        kept += character
    return f"{kept.rstrip()}…"
