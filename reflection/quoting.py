"""Pieces of prompts: texts quoted as data, lines that mark them off, and forms of replies."""

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

from reflection.text import fold, well_formed

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
    """Make a line that stands in none of the texts, in time linear in their length."""
    taken = {
        found[1] for text in texts for found in re.finditer(rf"(?==== {name} ?(\d*) ===)", text)
    }
    number = next(count for count in itertools.count(1) if str(count) not in taken)
    return f"=== {name} {number} ==="


def unmistakable_mark(name: str, texts: Sequence[str]) -> str:
    """Make a mark that stands in none of the texts, not even with letters that look alike."""
    return mark(name, [*texts, *(fold(text).casefold() for text in texts)])


def filled(template: str, known: dict[str, str]) -> str:
    """Fill in each place once, so that a place's name in a text stays text."""
    name = next((place for place in sorted(known, key=template.find) if place in template), None)
    if name is None:
        return template
    before, _, after = template.partition(name)
    return before + known[name] + filled(after, known)


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with just these members, all of them required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
