"""The program that evaluates calls of the code under test, and helpers for every test program.

Only the worker knows the expected values. Results go out as lines of JSON on a descriptor that the
code's own prints do not reach. Values are written as Python expressions, of exact builtin types
alone, so that writing them does not run the code.
"""

import builtins
import json
import math
import os
import sys
import time
import traceback
from collections import Counter
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
# The file name in the code's frames; the code itself may change the folder.
SOLUTION = str(FOLDER / f"{NAME}.py")
CHARACTERS = 8_000
ITEMS = 2_000
DEPTH = 50
# Some 3,900 digits, and Python writes 4,300.
BITS = 13_000
SHOWN = 600
# More room for code whose tests run apart from it: its values are not kept in histories.
ROOM = {"LINE": 450_000, "CHARACTERS": 200_000, "ITEMS": 50_000}
GIVEN, APART = "given", "apart"
BASES = (int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset)
DRAWING_SECONDS, _now = 0.5, time.monotonic
# The builtins before the code may replace them, for the calls and for the functions below.
BUILTINS = dict(vars(builtins))
globals()["__builtins__"] = BUILTINS

# Names of types that Python code can neither make nor change (Py_TPFLAGS_IMMUTABLETYPE).
IMMUTABLE = 1 << 8
FLAGS = vars(type)["__flags__"].__get__
LISTS = {"tuple", "list", "set", "frozenset"}
MAPPINGS = {"dict", "collections.defaultdict", "collections.OrderedDict"}
ATOMS = {"NoneType", "bool", "int", "float", "complex", "str", "bytes"}
# Further types that a builtin around the call may read.
VIEWS = {"range", "dict_keys", "dict_values", "dict_items", "bytearray", "collections.deque"}
VIEWS |= {"numpy.ndarray"}
SCALARS = {"decimal.Decimal", "datetime.date", "numpy.float64", "numpy.int64", "numpy.bool"}


def main() -> None:
    """Import the code once, and evaluate the calls in order."""
    task = asked()
    channel = Channel(task["nonce"])
    solution = load(channel)
    if solution is None:
        return
    for number, steps in enumerate(task["calls"]):
        # A call may use the code's own names, but not those of builtins, except for the entry.
        names = {
            name: value
            for name, value in vars(solution).items()
            if name not in BUILTINS or name == task["entry"]
        }
        channel.say(case=number, **_answer(steps, names, task["entry"]))
    channel.say(end=True)


def _answer(steps: list[str], names: dict[str, Any], entry: str | None) -> dict[str, str]:
    """Evaluate the call itself, then each builtin around it with the value before."""
    try:
        if steps[1:] == [APART]:
            return _called(names[entry or ""], *_evaluated(steps[0], {}))
        value = _evaluated(steps[0], names)
        # By convention, an upper-case entry is a class, whose own methods are tested.
        asked_for = names.get(entry) if entry and entry[0].isupper() else None
        for step in steps[1:]:
            given = value if type(value) is asked_for else readable(value)
            value = _evaluated(step, {GIVEN: given})
        return {"value": written(value)}
    except UnplainError as error:
        return {"message": f"returns {error}"}
    except BaseException as error:  # the code may raise anything, SystemExit too
        kinds = type(error).__mro__
        # The process with the test has Python's own types alone.
        own = next((kind for kind in kinds if BUILTINS.get(kind.__name__) is kind), kinds[0])
        raised = said(error, own if steps[1:] == [APART] else kinds[0])
        return {"message": f"raises {raised}", "traceback": frames(error, {SOLUTION})}


def _called(function: Any, given: Any, named: Any) -> dict[str, str]:
    """Call a function; return its value, and the arguments if it changed them."""
    arguments = [*given, *named.values()]
    before = written(arguments)
    value = function(*given, **named)
    name, kind = type_name(value), ""
    # A range, a view or a generator does not equal a list of the same values.
    if name in VIEWS or (name and hasattr(type(value), "__next__")):
        value, whole = _drawn(value)
        kind = repr("view" if name in VIEWS else "whole" if whole else "begun")
    text = written(value, apart=True)
    after = written(arguments)
    return {"value": text, "iterates": kind, "changed": after if after != before else ""}


def _drawn(values: Any) -> tuple[list[Any], bool]:
    """Draw values as far as room and time allow; tell if these are all."""
    drawn, room, until = list[Any](), CHARACTERS // 2, _now() + DRAWING_SECONDS
    for value in values:
        try:
            room -= len(written(value, apart=True)) + 2
        except UnplainError:
            return drawn, False
        if room < 0 or len(drawn) >= ITEMS // 2 or _now() > until:
            return drawn, False
        drawn.append(value)
    return drawn, True


def _evaluated(expression: str, names: dict[str, Any]) -> Any:
    names = {**names, "__builtins__": dict(BUILTINS)}
    return eval(compile(expression, "<test>", "eval", dont_inherit=True), names)  # noqa: S307 its purpose


def asked() -> dict[str, Any]:
    """Read the task from standard input: one JSON object with its `nonce`."""
    sys.dont_write_bytecode = True
    task: dict[str, Any] = json.load(sys.stdin)
    globals().update(ROOM if "apart" in task else {})
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

        Replaces a line that is too long by one that says so.
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
    # Python's own builtins, as for any module, and not this module's copy.
    vars(module)["__builtins__"] = vars(builtins)
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


def said(error: BaseException, kind: type | None = None) -> str:
    """Write an exception as its type and message; never raises, whatever the type does."""
    name = (kind or type(error)).__name__
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
    kept = [
        f'File "{Path(frame.filename).name}", line {frame.lineno}, in {frame.name[:WIDTH]}\n'
        f"    {(frame.line or '')[:WIDTH]}"
        for frame in stack[-FRAMES:]
    ]
    if isinstance(error, SyntaxError) and error.filename and error.filename in paths:
        kept.append(f'File "{Path(error.filename).name}", line {error.lineno}')
        kept.append(f"    {(error.text or '').strip()[:WIDTH]}")
    return "\n".join([*kept, said(error)[:WIDTH]]) if kept else ""


class UnplainError(Exception):
    """The value is not plain data, or is too large; the message says which."""


def written(value: object, *, apart: bool = False) -> str:
    """Write a value as an expression of at most CHARACTERS. Raises UnplainError.

    For tests that run `apart`, a value of a subclass of Python's types is written as of that type.
    """
    text = _Writer(apart=apart).write(value, DEPTH)
    if len(text) > CHARACTERS:
        raise UnplainError(f"a value of {len(text):,} characters; at most {CHARACTERS:,} are read")
    return text


def type_name(value: object) -> str:
    """Name the exact type of a value; empty for one that Python code may have made or changed."""
    kind = type(value)
    if not FLAGS(kind) & IMMUTABLE:
        return ""
    return f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")


def readable(value: Any) -> Any:
    """Return a value that a builtin reads without the code's own methods. Raises UnplainError.

    An iterator is run to its end, and a new one over its values is returned.
    """
    if type(value) is Counter:
        value = dict(dict.items(value))
    runs = bool(type_name(value)) and hasattr(type(value), "__next__")
    items: list[Any] = list(value) if runs else [value]
    left, seen = [*items], {}
    while left:
        part = left.pop()
        name = type_name(part)
        if name in ATOMS | SCALARS or id(part) in seen:
            continue
        if name in MAPPINGS:
            left.extend([*dict.keys(part), *dict.values(part)])
        elif name in LISTS | VIEWS:
            left.extend(part)
        else:
            raise UnplainError(_unplain(part))
        # Keep the value, so that another object can't get its id.
        seen[id(part)] = part
    return iter(items) if runs else value


def _unplain(value: object) -> str:
    return f"a value of the type {type(value).__name__}, which is not plain data"


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


def _based(value: Any) -> Any:
    """Return the plain value that a named tuple, an enum, a numpy scalar and so on compares as."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    base = next((kind for kind in BASES if isinstance(value, kind)), None)
    if base is None:
        return value
    # An enum's text would be its name.
    return str.__str__(value) if base is str else bytes(value) if base is bytearray else base(value)


class _Writer:
    def __init__(self, *, apart: bool) -> None:
        self._left, self._apart = ITEMS, apart

    def write(self, value: Any, depth: int) -> str:
        """Write a value of an exactly known type, with the values in it."""
        self._left -= 1
        if depth == 0:
            raise UnplainError(f"a value nested more than {DEPTH} deep")
        if self._left < 0:
            raise UnplainError(f"a value of more than {ITEMS:,} items")
        name = type_name(value)
        if self._apart and name not in LISTS | MAPPINGS | ATOMS:
            value = _based(value)
            name = type_name(value)
        if name in LISTS:
            return self._all(value, name, depth - 1)
        if name in MAPPINGS or type(value) is Counter:
            pairs = [
                f"{self.write(key, depth - 1)}: {self.write(kept, depth - 1)}"
                for key, kept in dict.items(value)
            ]
            return f"{{{', '.join(pairs)}}}"
        return _simply(value, name)

    def _all(self, values: Collection[object], kind: str, depth: int) -> str:
        items = ", ".join([self.write(value, depth) for value in values])
        if kind == "list":
            return f"[{items}]"
        if kind == "tuple":
            return f"({items}{',' if len(values) == 1 else ''})"
        if not values:
            return f"{kind}()"
        return f"{{{items}}}" if kind == "set" else f"frozenset({{{items}}})"


def _simply(value: Any, kind: str) -> str:
    if kind not in ATOMS:
        raise UnplainError(_unplain(value))
    if kind in {"str", "bytes"}:
        if len(value) > CHARACTERS:
            size = f"{len(value):,} characters; at most {CHARACTERS:,} are read"
            raise UnplainError(f"a text of {size}")
        return ascii(value)
    if kind == "int" and value.bit_length() > BITS:
        raise UnplainError(f"an integer of {value.bit_length():,} bits; at most {BITS:,} are read")
    if kind == "complex" and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise UnplainError("a complex number that is not finite")
    finite = kind != "float" or math.isfinite(value)
    return repr(value) if finite else f"float('{value!r}')"
