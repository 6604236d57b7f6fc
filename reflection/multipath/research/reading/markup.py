"""The signs of Markdown, and what is left of a text without them."""

import re

from reflection.spelling import fold

FENCE = re.compile(r"[ \t>]{0,12}(`{3,}|~{3,})([^`]*)")
BACKQUOTES = re.compile("`+")
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>")
TARGET = re.compile(r"(?<=\])\([^()\s]{0,2000}(?:\s+\"[^\"\n]{0,200}\")?\)")
MARKUP = re.compile(
    r"^[ \t]*(?:#{1,6}(?=\s)|>+|[-*+•](?=\s)|[-*_=|: \t]{3,}$)|[*_~`|\\]+", re.MULTILINE
)


def without_comments(text: str) -> str:
    """Remove HTML comments, which no reader sees; one that is never closed hides the rest."""
    kept, place = [], 0
    while (start := text.find("<!--", place)) >= 0:
        kept.append(text[place:start])
        end = text.find("-->", start + 4)
        place = len(text) if end < 0 else end + 3
    return "".join([*kept, text[place:]])


def without_markup(text: str) -> str:
    """Remove comments, tags, link targets and Markdown's signs; code keeps its words."""
    shown = TARGET.sub("", TAG.sub("", fold(without_comments(text))))
    return MARKUP.sub("", shown)
