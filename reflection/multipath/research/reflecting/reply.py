"""What a reflection's reply says: issues that are to be mended, and ideas beyond the sources."""

import re
from collections.abc import Iterator, Sequence

from reflection.critique.evaluation import ADVICE, SAYS_WHERE
from reflection.critique.guardrails.prose import words
from reflection.multipath.research.checks import MOST_CRITIQUES
from reflection.multipath.research.reading.sentences import plain_words, stands_in
from reflection.multipath.research.reflecting.echoes import QUOTED, own_objects
from reflection.multipath.result import Source
from reflection.multipath.state import Aspect, Critique
from reflection.objects import Members, every_object, first_text, plain, without_objects
from reflection.run import Record, cut_encoded
from reflection.text import well_formed
from reflection.thinking import spoken

ISSUES = "issues"
NAMED = re.compile(r'"issues"\s{0,8}:', re.IGNORECASE)
MOST_SUGGESTIONS = 8
TEXT_BYTES = 600
SENTENCE = ("sentence", *SAYS_WHERE)
IDEA = ("suggestion", "idea", *ADVICE)
NUMBER = re.compile(r"\[?(\d{1,4})\]?")
NOTHING = {"none", "nothing", "no issue", "no issues", "no suggestions", "n a", "null"}
# By the words that models use for an aspect; "person" is no model's to say.
STEMS: tuple[tuple[str, Aspect], ...] = (
    ("demarc|creativ|consideration", "demarcation"),
    ("complet|missing|omi|coverage|gap", "completeness"),
    ("clar|ambig|vague|wording|readab", "clarity"),
    ("consist|contradict|logic|coheren", "consistency"),
    ("cit|sourc|refer|support|ground|fact|accura", "citation"),
)


class ReflectionReply(Record):
    """One reflection: what is to be mended, and what goes beyond the sources.

    `error` says why the reply can't be used, and asking again with it may help; the two are empty
    then, which does not mean that the report is consistent.
    """

    critiques: tuple[Critique, ...] = ()
    suggestions: tuple[str, ...] = ()
    error: str | None = None


class _UnreadableError(Exception):
    """The reply can't be used; the message says why."""


def parse_reflection(
    text: str, report: str, sources: Sequence[Source], creative: bool, prompt: str = ""
) -> ReflectionReply:
    """Read a reflection's reply, or say in one line why it can't be used; never raises.

    Issues count whatever the reply says of consistency besides. A sentence that is not in the
    report is left out, and its advice is kept. What a model thinks aloud is no part of its reply,
    and neither is an object that it quotes from the prompt, the report or the sources. Where
    objects contradict one another, or one is malformed, the reply is unreadable; so is one that
    has words and nothing but quoted objects, or finds the report inconsistent without an issue.
    """
    try:
        named = [part for each in sources for part in (each.passage.text, each.passage.source)]
        said = _object(spoken(text), [prompt, report, *named])
        critiques = _critiques(said, report, {each.number for each in sources})
    except _UnreadableError as error:
        return ReflectionReply(error=str(error))
    except RecursionError:
        return ReflectionReply(error="the JSON in it nests too deep")
    ideas = tuple(_suggestions(said))[:MOST_SUGGESTIONS] if creative else ()
    return ReflectionReply(critiques=critiques, suggestions=ideas)


def _object(text: str, shown: Sequence[str]) -> Members:
    found = every_object(text, ISSUES)
    if found is None:
        raise _UnreadableError("the JSON in it breaks off or nests too deep")
    if not found:
        raise _UnreadableError(f'there is no JSON object with "{ISSUES}" in it')
    own = own_objects(found, ISSUES, shown, text)
    if not own:
        raise _UnreadableError(QUOTED)
    if any(each != own[-1] for each in own):
        raise _UnreadableError(f'there are several JSON objects in it with different "{ISSUES}"')
    if NAMED.search(without_objects(text)):
        raise _UnreadableError(f'there is a malformed JSON object with "{ISSUES}" in it')
    return own[-1]


def _critiques(said: Members, report: str, known: set[int]) -> tuple[Critique, ...]:
    given = said.values_of(ISSUES)
    if any(each != given[0] for each in given) or not isinstance(given[0], list):
        raise _UnreadableError(f'"{ISSUES}" is no list of issues')
    points = [given[0]] if isinstance(given[0], Members) else given[0]
    text = plain_words(report)
    read = [_critique(each, text, known) for each in points[: 2 * MOST_CRITIQUES]]
    critiques = tuple(dict.fromkeys(each for each in read if each))
    if points and not critiques:
        raise _UnreadableError("no issue in it says what to change")
    if not points and "false" in {plain(each) for each in said.values_of("consistent")}:
        raise _UnreadableError("it finds the report inconsistent, and names no issue")
    return critiques[:MOST_CRITIQUES]


def _critique(point: object, text: str, known: set[int]) -> Critique | None:
    members = point if isinstance(point, Members) else Members([("advice", point)])
    advice = _line(first_text(members, ADVICE))
    sentence = _line(first_text(members, SENTENCE))
    if advice is None:
        return None
    return Critique(
        aspect=_aspect(first_text(members, ("aspect", "kind", "type", "criterion"))),
        advice=advice,
        sentence=sentence if sentence and stands_in(sentence, text) else None,
        cited=_number(first_text(members, ("source", "cited", "citation")), known),
    )


def _aspect(said: str | None) -> Aspect:
    name = (said or "").casefold()
    return next((aspect for stems, aspect in STEMS if re.search(stems, name)), "consistency")


def _number(said: str | None, known: set[int]) -> int | None:
    found = NUMBER.fullmatch((said or "").strip())
    return int(found[1]) if found and int(found[1]) in known else None


def _suggestions(said: Members) -> Iterator[str]:
    for value in said.values_of("suggestions"):
        points = value if isinstance(value, list) and not isinstance(value, Members) else [value]
        lines = [
            _line(first_text(each, IDEA) if isinstance(each, Members) else plain(each))
            for each in points
        ]
        yield from dict.fromkeys(each for each in lines if each)


def _line(text: str | None) -> str | None:
    """Bring a text to one line of a bounded length; None where it says nothing."""
    line = cut_encoded(" ".join(well_formed(text or "").split()), TEXT_BYTES)
    says = any(each.isalpha() for each in line) and " ".join(words(line)) not in NOTHING
    return line if says else None
