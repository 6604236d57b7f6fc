"""The built-in tools: arithmetic, the time, Python in the sandbox, and documents."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import Field

from activities.documents.retrieval import RetrievalTask
from activities.sandbox.port import Program, Sandbox
from activities.tools.functions import tool
from activities.tools.port import Library, ToolError
from mull.multipath.request import Limits
from mull.turn.budget import TOOL_SECONDS

# The most that a number may have, so that expressions do not take long.
MOST_BITS = 10_000
KEPT_OUTPUT = 16_384
START_SECONDS = 3.0

MATH = "pi e tau sqrt exp log log2 log10 floor ceil gcd sin cos tan asin acos atan degrees radians"


def _power(base: float, exponent: float) -> Any:
    # The result has at least so many bits.
    if isinstance(base, int) and (base.bit_length() - 1) * exponent > MOST_BITS:
        raise OverflowError("the number is too large")
    return base**exponent


OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
KNOWN: Mapping[str, Any] = {
    **{name: getattr(math, name) for name in MATH.split()},
    "abs": abs,
    "min": min,
    "max": max,
    # Rounding a whole number to a billion digits would take as long as writing them.
    "round": lambda number, digits=0: round(float(number), digits) if digits else round(number),
}


@tool(read_only=True, idempotent=True, keys=("calculate:{expression}",))
async def calculate(
    expression: Annotated[
        str,
        Field(
            max_length=500,
            description="Such as `2 * (3 + 4) ** 2` or `sqrt(2) / pi`. Operators: + - * / // % **."
            f" Constants and functions: {', '.join(KNOWN)}.",
        ),
    ],
) -> str:
    """Calculate the value of an arithmetic expression, exactly for whole numbers."""
    return str(_value(ast.parse(expression.strip(), mode="eval").body))


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            found = value
        case ast.Name(id=name) if name in KNOWN:
            found = KNOWN[name]
        case ast.UnaryOp(op=sign, operand=one) if type(sign) in OPERATORS:
            found = OPERATORS[type(sign)](_value(one))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            found = OPERATORS[type(sign)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in KNOWN:
            found = KNOWN[name](*map(_value, given))
        case _:
            raise ValueError("this is not an arithmetic expression")
    if isinstance(found, int) and found.bit_length() > MOST_BITS:
        raise OverflowError("the number is too large")
    if not isinstance(found, int) and not math.isfinite(found):
        raise OverflowError("the result is not a finite number")
    return found


@tool(read_only=True)
async def current_time(
    timezone: Annotated[str, Field(description="Such as `Europe/Berlin`; UTC by default.")] = "UTC",
) -> str:
    """Tell the current date, weekday and time."""
    now = datetime.now(UTC if timezone == "UTC" else ZoneInfo(timezone))
    return f"{now:%A}, {now.isoformat(timespec='seconds')}"


def python_tool(sandbox: Sandbox | None) -> Callable[..., Any]:
    """Build `run_python`; without a sandbox a worker can list it, but not call it."""

    @tool(read_only=True, keys=("python:{code}",), group="python")
    async def run_python(
        code: Annotated[str, Field(description="A program; what it prints is the result.")],
        input: Annotated[str, Field(description="Its standard input.")] = "",  # noqa: A002 - the model's word
    ) -> str:
        """Run Python with numpy in a sandbox without network, where no file is kept."""
        if sandbox is None:
            raise ToolError("this worker has no sandbox")
        seconds = TOOL_SECONDS - START_SECONDS
        limits = Limits(wall_seconds=seconds, cpu_seconds=seconds)
        program = Program(code=code, input=input, limits=limits, keep_bytes=KEPT_OUTPUT)
        ran = await sandbox.run(program)
        printed = f"{ran.stdout.text}\n{ran.stderr.text}".strip()
        if ran.status == "ok":
            return printed or "(the program printed nothing)"
        ended = ran.status if ran.exit_code is None else f"exit code {ran.exit_code}"
        raise ToolError(f"the program ended with {ended}\n{printed}".strip())

    return run_python


def document_tools(library: Library, docs: str) -> tuple[Callable[..., Any], ...]:
    """Build the tools that search and read the documents in a folder of the worker."""

    @tool(read_only=True, idempotent=True, keys=("search:{query}",), group="documents")
    async def search_documents(
        query: Annotated[str, Field(max_length=2_000, description="Words to look for.")],
        passages: Annotated[int, Field(ge=1, le=20, description="How many to return.")] = 5,
    ) -> str:
        """Find the passages of the documents that fit some words best, each with its place."""
        task = RetrievalTask(prompt=query, docs=docs, passages=passages)
        found = await library.retrieve(task)
        texts = [f"{passage.place}\n{passage.text}" for passage in found.passages]
        return "\n\n".join([*found.warnings, *texts]) or "no passage has any of these words"

    @tool(read_only=True, idempotent=True, keys=("document:{path}",), group="documents")
    async def read_document(
        path: Annotated[str, Field(max_length=1_000, description="As search_documents shows it.")],
    ) -> str:
        """Read a document as a whole; one that is too long is cut in the middle."""
        return await library.read(docs, path)

    return search_documents, read_document
