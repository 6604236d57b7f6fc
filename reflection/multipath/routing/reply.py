"""What a router's reply says: the mode and the reason, or why it can't be read."""

import re

from reflection.multipath.research.reflecting.echoes import QUOTED, own_objects
from reflection.multipath.result import Routing
from reflection.multipath.state import Mode
from reflection.objects import Members, every_object, plain, without_objects
from reflection.run import cut_encoded
from reflection.text import well_formed
from reflection.thinking import spoken

MODE = "mode"
NAMED = re.compile(r'"mode"\s{0,8}:', re.IGNORECASE)
MODES: dict[str, Mode | None] = {
    "research": "research",
    "researcher": "research",
    "code": "code",
    "coder": "code",
    "neither": None,
    "undefined": None,
}
REASON_BYTES = 600
NO_REASON = "the model gave no reason"
UNREADABLE = "the router's reply could not be read"
DEEP = "the JSON in it breaks off or nests too deep"


class _UnreadableError(Exception):
    """The reply can't be used; the message says why."""


def parse_route(text: str, prompt: str = "") -> Routing:
    """Read a router's reply, or say in `error` why it can't be used; never raises.

    A prompt that fits neither path has mode None and the model's reason, and no error. Prose
    around the object is left alone; objects, or equal keys, that contradict one another are
    unreadable, and so is one beside another that is malformed: a mode is never guessed. What a
    model thinks aloud is no part of its reply, and neither is an object that it quotes from the
    prompt; a reply that has words and nothing but quoted objects is unreadable.
    """
    try:
        said = _object(spoken(text), prompt)
        mode = _mode(said)
    except (_UnreadableError, RecursionError) as error:
        why = str(error) if isinstance(error, _UnreadableError) else DEEP
        return Routing(mode=None, reason=UNREADABLE, chosen_by="model", error=why)
    return Routing(mode=mode, reason=_reason(said), chosen_by="model")


def _object(text: str, prompt: str) -> Members:
    found = every_object(text, MODE)
    if found is None:
        raise _UnreadableError(DEEP)
    if not found:
        raise _UnreadableError('there is no JSON object with "mode" in it')
    own = own_objects(found, MODE, [prompt], text)
    if not own:
        raise _UnreadableError(QUOTED)
    if len({_mode(each) for each in own}) > 1:
        raise _UnreadableError("there are several JSON objects in it with different modes")
    if NAMED.search(without_objects(text)):
        raise _UnreadableError('there is a malformed JSON object with "mode" in it')
    return own[-1]


def _mode(said: Members) -> Mode | None:
    names = {(plain(each) or "").strip().casefold() for each in said.values_of(MODE)}
    if not names <= MODES.keys():
        raise _UnreadableError('"mode" is none of research, code and neither')
    modes = {MODES[each] for each in names}
    if len(modes) > 1:
        raise _UnreadableError('there are two different values for "mode"')
    return modes.pop()


def _reason(said: Members) -> str:
    given = [plain(each) or "" for each in said.values_of("reason")]
    line = " ".join(well_formed(given[-1] if given else "").split())
    return cut_encoded(line, REASON_BYTES) or NO_REASON
