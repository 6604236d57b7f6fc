"""The program that evaluates calls of the code under test, and what every program of tests needs.

Only the worker knows what the values should be. Lines of JSON go out on a descriptor that the
code's own prints do not reach. Values are written as Python expressions, of exact builtin types
alone, so that none of the code runs meanwhile.
"""

import builtins
import json
import math
import os
import sys
import traceback
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

LINE = 40_000
MESSAGE = 1_500
FRAMES = 8
WIDTH = 120
NAME = "solution"
FOLDER = Path.cwd()
# As the frames of the code name it; the code itself may go to another folder.
SOLUTION = str(FOLDER / f"{NAME}.py")
CHARACTERS = 8_000
ITEMS = 2_000
DEPTH = 50
# Some 3,900 digits, and Python writes 4,300.
BITS = 13_000
SHOWN = 600
# As they are before the code may replace them.
BUILTINS = dict(vars(builtins))


def main() -> None:
    """Import the code once, and evaluate the calls in order."""
    task = asked()
    channel = Channel(task["nonce"])
    solution = load(channel)
    if solution is None:
        return
    for number, call in enumerate(task["calls"]):
        # A call may use the code's own names, but Python's own by theirs.
        names = {
            name: value
            for name, value in vars(solution).items()
            if name not in BUILTINS or name == task["entry"]
        }
        channel.say(case=number, **_answer(call, {**names, "__builtins__": dict(BUILTINS)}))
    channel.say(end=True)


def _answer(call: str, names: dict[str, Any]) -> dict[str, str]:
    try:
        value = eval(compile(call, "<test>", "eval", dont_inherit=True), names)  # noqa: S307 its purpose
        return {"value": written(value)}
    except UnplainError as error:
        return {"message": f"returns {error}"}
    except BaseException as error:  # the code may raise anything, SystemExit too
        return {"message": f"raises {said(error)}", "traceback": frames(error, {SOLUTION})}


def asked() -> dict[str, Any]:
    """Read the task from standard input: one JSON object with its `nonce`."""
    sys.dont_write_bytecode = True
    task: dict[str, Any] = json.load(sys.stdin)
    return task


class Channel:
    """A private copy of standard output, which itself leads to standard error from now on."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._descriptor = os.dup(1)
        # The code under test may replace what these modules hold.
        self._write, self._encode = os.write, json.JSONEncoder().encode
        os.dup2(2, 1)

    def say(self, **said: object) -> int:
        """Print one line, the nonce and an object, and return its size in bytes.

        A line that is too long is replaced by one that says so.
        """
        text = self._encode(said)
        if len(text) > LINE:
            text = self._encode({"too_long": len(text)})
        # The code may have left half a line behind.
        data = f"\n{self._nonce} {text}\n".encode("ascii")
        size = len(data)
        while data:
            data = data[self._write(self._descriptor, data) :]
        return size


def load(channel: Channel) -> ModuleType | None:
    """Import the code; if that fails, say why and return None."""
    module = ModuleType(NAME)
    module.__file__ = SOLUTION
    sys.modules[NAME] = module
    try:
        text = Path(SOLUTION).read_text(encoding="utf-8")
        exec(compile(text, SOLUTION, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 its purpose
    except BaseException as error:  # the code may raise anything, SystemExit too
        broken = said(error)
        if isinstance(error, SyntaxError) and error.filename == SOLUTION:
            broken = f"line {error.lineno}: {type(error).__name__}: {error.msg}"
        channel.say(broken=broken, traceback=frames(error, {SOLUTION}))
        return None
    return module


def public(solution: ModuleType) -> dict[str, Any]:
    """Return the names of the code that tests may use without importing them."""
    return {name: value for name, value in vars(solution).items() if not name.startswith("_")}


def also_named(solution: ModuleType, *names: str | None) -> None:
    """Let the tests import the code by other names too, unless a module has them."""
    for name in names:
        if name and name.isidentifier() and name not in sys.modules and find_spec(name) is None:
            sys.modules[name] = solution


def said(error: BaseException) -> str:
    """Write an exception as its type and message; never raises, whatever the type does."""
    name = type(error).__name__
    try:
        text = str(error)[:MESSAGE]
    except BaseException:  # the code's own __str__ may raise anything
        text = "its message can't be shown"
    return f"{name}: {text}" if text else name


def frames(error: BaseException, paths: Collection[str]) -> str:
    """Write the innermost frames in the files of these paths, and the exception."""
    stack = traceback.StackSummary.extract(
        frame
        for frame in traceback.walk_tb(error.__traceback__)
        if frame[0].f_code.co_filename in paths
    )
    kept = [_named(frame) for frame in stack[-FRAMES:]]
    if isinstance(error, SyntaxError) and error.filename and error.filename in paths:
        kept.append(f'File "{Path(error.filename).name}", line {error.lineno}')
        kept.append(f"    {(error.text or '').strip()[:WIDTH]}")
    return "\n".join([*kept, said(error)[:WIDTH]]) if kept else ""


def _named(frame: traceback.FrameSummary) -> str:
    place = f'File "{Path(frame.filename).name}", line {frame.lineno}, in {frame.name[:WIDTH]}'
    return f"{place}\n    {(frame.line or '')[:WIDTH]}"


class UnplainError(Exception):
    """The value is not plain data, or too much of it; the message says which."""


def written(value: object) -> str:
    """Write a value as an expression of at most CHARACTERS. Raises UnplainError."""
    text = _Writer().write(value, DEPTH)
    if len(text) > CHARACTERS:
        raise UnplainError(f"a value of {len(text):,} characters; at most {CHARACTERS:,} are read")
    return text


def shown(value: object, most: int = SHOWN) -> str:
    """Write any value for people, in at most `most` characters and an ellipsis."""
    try:
        text = written(value)
    except UnplainError:
        try:
            text = repr(value)
        except Exception:  # the code's own repr may fail in any way
            text = f"<{type(value).__name__}>"
    return text if len(text) <= most else f"{text[:most]}…"


class _Writer:
    def __init__(self) -> None:
        self._left = ITEMS

    def write(self, value: Any, depth: int) -> str:
        """Write a value of a type that is known exactly, and what is in it."""
        self._left -= 1
        if depth == 0:
            raise UnplainError(f"a value nested more than {DEPTH} deep")
        if self._left < 0:
            raise UnplainError(f"a value of more than {ITEMS:,} items")
        if type(value) in (tuple, list, set, frozenset):
            return self._all(value, depth - 1)
        if type(value) is dict:
            pairs = [
                f"{self.write(key, depth - 1)}: {self.write(kept, depth - 1)}"
                for key, kept in value.items()
            ]
            return f"{{{', '.join(pairs)}}}"
        return _simply(value)

    def _all(self, values: Collection[object], depth: int) -> str:
        items = ", ".join([self.write(value, depth) for value in values])
        if type(values) is list:
            return f"[{items}]"
        if type(values) is tuple:
            return f"({items}{',' if len(values) == 1 else ''})"
        kind = type(values).__name__
        if not values:
            return f"{kind}()"
        return f"{{{items}}}" if kind == "set" else f"frozenset({{{items}}})"


def _simply(value: Any) -> str:
    kind = type(value)
    if kind in (str, bytes):
        if len(value) > CHARACTERS:
            size = f"{len(value):,} characters; at most {CHARACTERS:,} are read"
            raise UnplainError(f"a text of {size}")
        return ascii(value)
    if kind is int and value.bit_length() > BITS:
        raise UnplainError(f"an integer of {value.bit_length():,} bits; at most {BITS:,} are read")
    if kind is complex and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise UnplainError("a complex number that is not finite")
    if kind not in (type(None), bool, int, float, complex):
        raise UnplainError(f"a value of the type {kind.__name__}, which is not plain data")
    finite = kind is not float or math.isfinite(value)
    return repr(value) if finite else f"float('{value!r}')"
