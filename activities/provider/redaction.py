"""Error messages that may be shown: one short line, without a key and without the prompt."""

import re
from collections.abc import Iterable, Iterator

LINE_CHARACTERS = 300
READ_CHARACTERS = 1_000
ECHO_CHARACTERS = 12
SHORTEST_ECHO = 4

_CLASS_NAMES = re.compile(
    r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?: Error)?\s*[:-]\s+)+"
)
_JSON_MESSAGE = re.compile(r'"message":\s*"((?:[^"\\]|\\.)*)"')
_JSON_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|[nrt"\\/])')
_ADDRESS_OF_OBJECT = re.compile(r"\s*(?:ssl:)?<[^<>]* object at 0x[0-9a-f]+>")
_KEY = re.compile(
    r"\b(?:sk|gsk|xai|hf|pplx|nvapi|ghp|fw|r8)[-_][\w*-]{6,}"
    r"|\bA(?:Iza|KIA)[\w-]{12,}"
    r"|\beyJ[\w-]+(?:\.[\w-]+)*"
    r"|(?<=Bearer )\S+"
    r"|(?<=//)[^/@\s]+(?=@)"
    r"|\w*\*{3,}\w*"
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{24,}\b"
)


def one_line(text: str, prompt: str = "", secrets: Iterable[str] = ()) -> str:
    """Shorten a provider's message to at most 300 characters that anyone may read.

    Keys become `[key]`, and 12 or more letters in a row that stand in the prompt too `[prompt]`.
    """
    message = text.partition("Traceback (most recent call last)")[0]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        message = message.replace(secret, "[key]")
    message = _KEY.sub("[key]", _plain(message))
    line = _without_echo(message, prompt) or "the provider gave no reason"
    return line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 1] + "…"


def _plain(message: str) -> str:
    said = _CLASS_NAMES.sub("", message.strip())
    found = _JSON_MESSAGE.search(said) if said.startswith("{") else None
    said = _JSON_ESCAPE.sub(_unescape, found[1] if found else said)
    return " ".join(_ADDRESS_OF_OBJECT.sub("", said).split())[:READ_CHARACTERS]


def _unescape(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return escape[0][1] if escape[0][1] in '"\\/' else " "


def _without_echo(message: str, prompt: str) -> str:
    """Letters alone are compared: providers echo prompts quoted, escaped and cut."""
    asked = "".join(letter.lower()[:1] for letter in prompt if letter.isalnum())
    places = [at for at, letter in enumerate(message) if letter.isalnum()]
    said = "".join(message[at].lower()[:1] for at in places)
    window = max(SHORTEST_ECHO, min(ECHO_CHARACTERS, len(asked)))
    echoed: set[int] = set()
    for start in range(len(said) - window + 1):
        if said[start : start + window] in asked:
            echoed.update(range(places[start], places[start + window - 1] + 1))
    return "".join(_masked(message, echoed))


def _masked(message: str, echoed: set[int]) -> Iterator[str]:
    for at, letter in enumerate(message):
        if at not in echoed:
            yield letter
        elif at - 1 not in echoed:
            yield "[prompt]"
