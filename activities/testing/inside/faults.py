"""What an exception says: in one message, and in a traceback of the user's own frames."""

import traceback
from collections.abc import Collection
from pathlib import Path
from types import FrameType

MESSAGE = 1_500
FRAMES = 8
LINE = 120


def said(error: BaseException) -> str:
    """Write an exception as its type and message; never raises, whatever the type does."""
    name = type(error).__name__
    try:
        text = str(error)[:MESSAGE]
    except BaseException:  # the code's own __str__ may raise anything
        text = "its message can't be shown"
    return f"{name}: {text}" if text else name


def frames(error: BaseException, paths: Collection[str]) -> str:
    """Write the innermost frames that stand in the files of these paths, and the exception."""
    stack = traceback.StackSummary.extract(
        each for each in traceback.walk_tb(error.__traceback__) if _within(each[0], paths)
    )
    kept = [_named(each) for each in stack[-FRAMES:]]
    if isinstance(error, SyntaxError) and error.filename and error.filename in paths:
        kept.append(f'File "{Path(error.filename).name}", line {error.lineno}')
        kept.append(f"    {(error.text or '').strip()[:LINE]}")
    return "\n".join([*kept, said(error)[:LINE]]) if kept else ""


def _within(frame: FrameType, paths: Collection[str]) -> bool:
    return frame.f_code.co_filename in paths


def _named(frame: traceback.FrameSummary) -> str:
    place = f'File "{Path(frame.filename).name}", line {frame.lineno}, in {frame.name[:LINE]}'
    return f"{place}\n    {(frame.line or '')[:LINE]}"
