"""Images and links that do more than lead to a page: they become text."""

import re

UNESCAPED = r"(?<!\\)((?:\\\\)*)"
IMAGE = re.compile(rf"{UNESCAPED}!(?=\[)")
# What has no scheme, or one that leads to a page or a mailbox. An entity or a backslash may
# stand for any character, and an address that is still to come may be any.
NO_SCHEME = r"[^\s:&\\()<>/?#\]]"
HARMLESS = rf"(?:https?:|mailto:|{NO_SCHEME}*[/?#()>]|{NO_SCHEME}+ )"
LINK = re.compile(rf"{UNESCAPED}\](?=\()(?!\([ \t]*<?{HARMLESS})", re.IGNORECASE)
TITLE = r"(?:[ \t]+[\"'(].*)?[ \t]*"
BEFORE = r"[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++){0,5}+"
LABEL = r"(?:[^\[\]\\]++|\\.)*+"
ADDRESS = rf"(?!<?{HARMLESS})(?:<[^<>]*>|\S+){TITLE}$"
RELATIVE = rf"<?{NO_SCHEME}+>?"
DEFINED = re.compile(
    rf"{BEFORE}\[?(?!\^){LABEL}\]:(?=[ \t]*+(?:$|(?!{RELATIVE}{TITLE}$){ADDRESS}))",
    re.IGNORECASE,
)
NOTED = re.compile(
    rf"^({BEFORE}\[\^{LABEL}\]:[ \t]*)(?=\S)(?!\\)(?!{RELATIVE}{TITLE}$)(?={ADDRESS})",
    re.IGNORECASE,
)
ENDED = re.compile(rf"{UNESCAPED}\]:")


def without_images(text: str) -> str:
    """Make links of images, so that nothing is fetched when a report is shown."""
    return IMAGE.sub(r"\1\\!", text)


def harmless(text: str) -> str:
    """Make text of links whose address is none of http, https, mailto and relative ones."""
    return LINK.sub(r"\1\\]", text)


def undefined(line: str) -> str:
    """Make text of a line that defines such an address; a footnote stays one, and leads nowhere."""
    if "]:" in line and DEFINED.match(line):
        return ENDED.sub(r"\1\\]:", line)
    return NOTED.sub(r"\1\\", line)
