"""Objects in a reply that stand in what the model was shown, and so may be no answer of its own."""

import re
from collections.abc import Sequence

from reflection.objects import Members, Number, every_object, without_objects
from reflection.spelling import fold

FENCES = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\w*[ \t]*$", re.MULTILINE)
SPACING = re.compile(r"[\s\\]+")
MOST_OBJECTS = 50
QUOTED = "what it has of JSON is quoted from what you were shown: reply with an object of your own"


def own_objects(
    found: Sequence[Members], key: str, shown: Sequence[str], text: str
) -> list[Members]:
    """Leave out the objects of a reply that stand in what was shown; empty where it only quotes.

    Where all stand there they are kept if the reply says nothing besides: an honest reply may be
    the very object that a document has. White space, escapes and the kind of quotation marks make
    no difference, and neither does what stands around an object there. Of more than 50 different
    ones none is looked for.
    """
    written = [_written(each) for each in found]
    if not any(shown) or len(set(written)) > MOST_OBJECTS:
        return list(found)
    theirs = [each for one in shown for each in every_object(one, key) or []]
    texts = [_plain(each) for each in shown]
    there = {one for one in set(written) if any(one in each for each in texts)}
    pairs = list(zip(found, written, strict=True))
    own = [each for each, one in pairs if one not in there and each not in theirs]
    return own or (list(found) if _bare(text) else [])


def _bare(text: str) -> bool:
    return not any(each.isalpha() for each in FENCES.sub("", without_objects(text)))


def _plain(text: str) -> str:
    return SPACING.sub("", fold(text).casefold().replace("'", '"'))


def _written(found: Members) -> str:
    return _plain(_json(found))


def _json(value: object) -> str:
    if isinstance(value, Members):
        return "{" + ",".join([f'"{name}":{_json(each)}' for name, each in value]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_json(each) for each in value]) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value) if isinstance(value, Number) else f'"{value}"'
