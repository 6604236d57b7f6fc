"""What a model thinks aloud before its reply, and what it then says."""

import re

ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
BEGINS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
FIRST = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


def spoken(text: str) -> str:
    """Leave out what a model thinks aloud, also where it never ends; in linear time."""
    ends = [each.end() for each in ENDS.finditer(text)]
    after = text[ends[-1] :] if ends else text
    thinking = BEGINS.search(after)
    return after[: thinking.start()] if thinking else after


def after_thought(text: str) -> str:
    """Leave out what a model thinks aloud at the very beginning, and keep all else as it is."""
    return FIRST.sub("", text, count=1)
