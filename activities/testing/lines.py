"""What a program in the sandbox printed, read as the untrusted text that it is."""

import json

from activities.sandbox.port import Result

Line = dict[str, object]
MOST = 1_000_000_000


def result_lines(result: Result, nonce: str) -> list[Line]:
    """List the objects on the lines that begin with the nonce; whatever else there is, is left."""
    texts = f"{result.stdout.head}\n{result.stdout.tail}".split("\n")
    read = [_object(each.removeprefix(nonce)) for each in texts if each.startswith(nonce)]
    return [each for each in read if each is not None]


def only(lines: list[Line], name: str) -> Line | None:
    """Return the one line that has a member of this name; None where there are none or several."""
    found = [each for each in lines if name in each]
    return found[0] if len(found) == 1 else None


def text_in(line: Line, name: str) -> str | None:
    """Return a text under a name, or None where there is nothing, or no text."""
    value = line.get(name)
    return value if isinstance(value, str) and value else None


def count_in(line: Line, name: str) -> int | None:
    """Return a count under a name, or None where there is none."""
    value = line.get(name)
    return value if type(value) is int and 0 <= value <= MOST else None


def _object(text: str) -> Line | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
