"""Texts from outside: made safe to show, normalized, measured, quoted; and numbers in words.

Answers, reasons and errors come from models and people. Every place that shows them to a person
takes them through `terminal_safe` or `neutral`; the exact text stays in the result. A prompt quotes
them as data, or between marks that do not occur in any of them.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from math import floor, log10
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from unicodedata import category, decomposition, east_asian_width, name, normalize

if TYPE_CHECKING:
    from pydantic import BaseModel

# The largest event is 512 KiB.
RESULT_BYTES = 500_000
SHORTEST_CUT = 200
FITTED_DECISIONS = 100
TOO_LARGE = "texts over {most:,} bytes, and long lists, were cut to keep this result small"
ModelT = TypeVar("ModelT", bound="BaseModel")
# How to install an extra, by its name: Mull is not on PyPI.
EXTRA = "pip install '.[{}]', where . is Mull's folder or its wheel"
CUT_NOTE = "\n\n[cut here: too long for a result]"
SURROGATES = re.compile("[\ud800-\udfff]")

ESCAPE_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
JOINERS = "\u200c\u200d"
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# Blank beside those, and letters of scripts without case that look Latin.
BLANK = "\U00013441\U00013442\U00016fe4\U0001d159"
CASELESS = ("CANADIAN", "CARIAN", "GOTHIC", "LISU", "LYCIAN", "LYDIAN", "OLD", "TIFINAGH")
GREEK_LATIN = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺαγικνορτυχϲϳ"
LATIN_LOOKING = GREEK_LATIN + "АВЕЅІЈКМНОРСТУХҮӀԚԜаеорсухѕіјһүӏԁԛԝՕՍՏԼօսոցհզք"
LETTERS = re.compile(r"[^\W_]+")
# Latin letters that look like others, as do small capitals, and marks across a letter.
TWINS = (
    "\u0251\u0261\u01c0\ua7fe\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262"
    "\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731"
    "\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22"
)
CROSSED = re.compile("(?<=[0-9A-Za-z])[\u0334-\u0338\u20d2-\u20e3\u20e5-\u20ea]+")
# Signs that look like those of addresses, and hyphens and a comma that look like others.
ALIKE = "\u2024\uff0e\uff1a\ua789\uff20\u2044\u2215\u29f8\uff0f\uff3c"
SIGNS = re.compile(rf"(?<=[0-9A-Za-z])[{ALIKE}\u2010\u2011](?=[0-9A-Za-z/])")
COMMA = re.compile("(?<=[0-9])\u201a(?=[0-9])")
DIGITS = re.compile(r"\d+")
CHUNK, ADDRESS = re.compile(r'[^\s"]+'), re.compile(rf"\w[@./:\\{ALIKE}]\w")
QUOTES = str.maketrans("\u2018\u2019\u201a\u201b\u2032\u00b4“”„‟«»", "''''''\"\"\"\"\"\"")
# Scripts without spaces between words: each character is a word.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:['.,:][^\W_{UNSPACED}]+)*")


def well_formed(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 can hold, by U+FFFD."""
    return text if text.isascii() else SURROGATES.sub("\ufffd", text)


def neutral(text: str) -> str:
    """Replace what would act on a terminal or hide text; line ends and tabs stay.

    Control characters become their visible pictures (an escape is shown as U+241B), other
    controls, private characters and lone surrogates U+FFFD. Invisible format characters, which
    can turn the reading order around, are left out, but for the two joiners of scripts.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_neutral, text.replace("\r\n", "\n")))


def terminal_safe(text: str, most: int) -> str:
    """Return `text` on one line of at most `most` terminal columns, a cut shown as an ellipsis.

    It never has more than 2 * `most` characters, however many of them take no column.
    """
    head = text[: 16 * most + 256]
    line = " ".join(neutral(head).split())
    if len(head) == len(text) and width(line) <= most and len(line) <= 2 * most:
        return line
    kept, room = "", most - 1
    for character in line[: 2 * most - 1]:
        room -= _columns(character)
        if room < 0:
            break
        kept += character
    return f"{kept.rstrip()}…"


def width(text: str) -> int:
    """Count the columns that `text` takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _neutral(character: str) -> str:
    if " " <= character < "\x7f" or character in "\n\t":
        return character
    kind = category(character)
    if kind == "Cc":
        return ESCAPE_PICTURES.get(ord(character), "\ufffd")
    if kind == "Cf":
        return character if character in JOINERS else ""
    return "\ufffd" if kind in {"Cs", "Co"} else character


def revealed(text: str) -> str:
    r"""Write as escapes (`\u2060`) what a person who is asked about a text can't see, or mistakes.

    That is what is invisible, blank, or turns the reading order around, joiners too; letters of
    another script within a Latin word or address that look Latin, and signs in one that look like
    its own; digits of two scripts in one number; and piles of marks on a letter, or across it.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    hidden, marks = {place for place, one in enumerate(text) if _unseen(one)}, 0
    for place, one in enumerate(text + " "):
        if category(one) in {"Mn", "Me"}:
            marks += 1
            continue
        # No language writes three diacritics on one letter; some write three vowel signs and dots.
        if marks > (2 if name(text[place - 1], "").startswith("COMBINING") else 3):
            hidden |= {*range(place - marks, place)}
        marks = 0
    hidden |= _misread(text)
    for word in LETTERS.finditer(text):
        latin = [at for at, one in enumerate(word[0]) if _is_latin(one)]
        hidden |= {word.start() + at for at, one in enumerate(word[0]) if latin and _mimics(one)}
        within = range(latin[0], latin[-1]) if latin else ()
        hidden |= {word.start() + at for at in within if _is_narrow(word[0][at])}
    for part in CHUNK.finditer(text):
        others = {at for at, one in enumerate(part[0]) if one.isalpha() and not _is_latin(one)}
        alike = all(normalize("NFD", part[0][at])[0] in LATIN_LOOKING for at in others)
        if alike and ADDRESS.search(part[0]) and any(map(_is_latin, part[0])):
            hidden |= {part.start() + at for at in others}
            hidden |= {part.start() + found.start() for found in SIGNS.finditer(part[0])}
    return "".join(_escape(one) if place in hidden else one for place, one in enumerate(text))


def _misread(text: str) -> set[int]:
    """Find mathematical letters, digits among those of another script, and crossed ones."""
    found = {place for place, one in enumerate(text) if decomposition(one).startswith("<font>")}
    for crossed in (*CROSSED.finditer(text), *COMMA.finditer(text)):
        found |= {*range(*crossed.span())}
    for number in DIGITS.finditer(text):
        others = {place for place in range(*number.span()) if not text[place].isascii()}
        found |= others if len(others) < len(number[0]) else set()
    return found


def _unseen(character: str) -> bool:
    # Emoji and ideographs that this Python does not know yet are seen.
    newer = category(character) == "Cn" and "\U0001f000" <= character < "\U00040000"
    if category(character)[0] in "CZ" and not newer:
        return character not in " \n"
    return character in BLANK or INVISIBLE.match(character) is not None


def _is_latin(character: str) -> bool:
    return name(character, "").startswith("LATIN")


def _mimics(character: str) -> bool:
    """Tell whether a letter that is not Latin may be taken for one that is, within a word."""
    plain = normalize("NFKD", character)[0]
    if plain.isascii():
        return category(character) in {"Lu", "Ll", "Nl"} and not _is_latin(character)
    if character in TWINS:
        return True
    script, cased = name(plain, "").partition(" ")[0], plain.lower() != plain.upper()
    alike = {"LATIN": False, "GREEK": plain in GREEK_LATIN}
    return alike.get(script, cased or script in CASELESS)


def _is_narrow(letter: str) -> bool:
    """Tell whether a letter is of a script that has neither cases nor wide letters."""
    cased = letter.lower() != letter.upper() or category(letter) != "Lo"
    return not (cased or _is_latin(letter) or east_asian_width(letter) in "WFH")


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"


def _columns(character: str) -> int:
    if category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def fold(text: str) -> str:
    """Bring spellings of one character to one: NFKC, straight quotes, nothing invisible."""
    if text.isascii():
        return text
    return normalize("NFKC", INVISIBLE.sub("", text)).translate(QUOTES)


def words(text: str) -> list[str]:
    """List the words in lower case; in scripts without spaces each character is one."""
    return WORD.findall(fold(text).casefold())


Cell = str | int | float | None


class Shown(NamedTuple):
    """The name of a field's column or fact, how its value is written, and what stands for None.

    The name says what the column is, too: `score|share`, `chars|number`, `model|extra`.
    """

    name: str
    form: Callable[[Any], Cell] | None = None
    none: str | None = None

    def cell(self, value: Any) -> Any:
        """Write a value of the field for a table."""
        if value is None:
            return self.none
        return value if self.form is None else self.form(value)


def place(index: int) -> int:
    """Count an index from 1."""
    return index + 1


def with_sign(change: float) -> str:
    """Write a change with its sign."""
    return f"{change:+.2f}"


def spaced(name: str) -> str:
    """Write a name of the code as words."""
    return name.replace("_", " ")


def claimed(author: str | None) -> str | None:
    """Show a person's name as the claim that it is: any client may give any."""
    return author if author in {None, "a person"} else f"{quoted(str(author))} (unverified)"


def usd(amount: float | None) -> str:
    """Write US dollars with at least two digits that count; None is unknown."""
    if amount is None:
        return "unknown"
    digits = max(2, 1 - floor(log10(amount))) if amount > 0 else 2
    return f"${amount:,.{digits}f}"


def tally_words(count: int, one: str) -> str:
    """Write a count with its noun: "1 call", "1,204 calls"."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


SIZES = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def until_words(moment: datetime | None) -> str:
    """Say until when something lasts; nothing where it has no end."""
    return f"until {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else ""


def lasting_words(seconds: int) -> str:
    """Write a length of time in its two largest units: "2 h 5 min"."""
    parts, left = [], seconds
    for unit, size in SIZES:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2]) or "0 s"


def percent(share: float) -> str:
    """Write a share, 0 to 1: "12.5 %"."""
    return f"{100 * share:.1f} %"


def encoded_size(text: str) -> int:
    """Count the bytes of a text within the quotes of JSON, where a control character takes six."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def within(text: str, most: int) -> str:
    """Return a text of at most `most` bytes as JSON writes them. Raises ValueError."""
    size = encoded_size(text)
    if size > most:
        raise ValueError(f"{size:,} bytes exceed the limit of {most:,}")
    return text


def cut_encoded(text: str, most: int) -> str:
    """Keep the beginning of a text, so that it takes at most `most` bytes as JSON."""
    short = text[:most]
    while encoded_size(short) > most:
        short = short[: min(len(short) - 1, len(short) * most // encoded_size(short))]
    return short


def cut_with_note(text: str, most: int) -> str:
    """Keep the beginning of a text that is longer than that, and say so at its end."""
    if encoded_size(text) <= most:
        return text
    return cut_encoded(text, most - encoded_size(CUT_NOTE)) + CUT_NOTE


AGAIN = (
    "\n\nYou were asked this before, and your reply could not be used: {error}. "
    "Reply again, in the form above."
)


def quoted(text: str) -> str:
    """Write a text as one JSON string on one line, which nothing in it can end."""
    # Some models take these for ends of lines, which JSON leaves as they are.
    written = json.dumps(well_formed(text), ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", written)


def mark(name: str, texts: Sequence[str]) -> str:
    """Make a line that does not occur in any of the texts, in time linear in their length."""
    taken = {
        found[1] for text in texts for found in re.finditer(rf"(?==== {name} ?(\d*) ===)", text)
    }
    number = next(count for count in itertools.count(1) if str(count) not in taken)
    return f"=== {name} {number} ==="


def unmistakable_mark(name: str, texts: Sequence[str]) -> str:
    """Make a mark that does not occur in the texts, not even with letters that look alike."""
    return mark(name, [*texts, *(fold(text).casefold() for text in texts)])


def filled(template: str, known: dict[str, str]) -> str:
    """Fill in every place in one pass, so that a place's name in a text stays text."""
    return re.sub("|".join(map(re.escape, known)), lambda place: known[place[0]], template)


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with just these members, all of them required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def fitted(result: ModelT) -> ModelT:
    """Cut the longest texts of a result, but for its answer, to fit an event.

    Where that is not enough, early decisions, calls and responses are left out. `warnings` says so.
    """
    # `mull --help` loads this file, and not pydantic.
    from pydantic_core import to_json

    if len(to_json(result)) <= RESULT_BYTES:
        return result
    data: dict[str, Any] = result.model_dump(mode="json")
    whole = getattr(result, "answer_field", "")
    kept, said, most = data.get(whole), data.get("warnings", []), 64_000
    while (over := len(to_json(data)) - RESULT_BYTES) > 0 and most > SHORTEST_CUT:
        sizes = [encoded_size(text) for text in _texts({**data, whole: None})]
        most = most * 3 // 4
        # To cut and to measure a thousand answers at every step would hold a worker up.
        while most > SHORTEST_CUT and sum(size - most for size in sizes if size > most) < over:
            most = most * 3 // 4
        data = shortened(data, most) | ({whole: kept} if whole in data else {})
        data["warnings"] = [*said, TOO_LARGE.format(most=most)]
    for list_name, count in (("decisions", FITTED_DECISIONS), ("calls", 200), ("responses", 500)):
        if len(to_json(data)) > RESULT_BYTES and list_name in data:
            data[list_name] = data[list_name][-count:]
    return type(result).model_validate(data)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def shortened(value: Any, most: int) -> Any:
    """Cut every text in a value to so many bytes."""
    if isinstance(value, dict):
        return {name: shortened(inner, most) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner, most) for inner in value]
    return cut_with_note(value, most) if isinstance(value, str) else value


def sentence(words: str) -> str:
    """Begin with a capital letter, and end with one full stop."""
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def bar(share: float, columns: int) -> str:
    """Draw a share, 0 to 1, as a bar; a share above 0 gets at least one column."""
    full = max(round(share * columns), int(share > 0))
    return "▇" * full + "▁" * (columns - full)
