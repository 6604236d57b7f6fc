"""The way out of the sandbox: lines of JSON on a descriptor that the code's own prints miss."""

import json
import os
import sys
from typing import Any

LINE = 40_000


def asked() -> dict[str, Any]:
    """Read what to do from the standard input: one JSON object, its `nonce` among its members."""
    sys.dont_write_bytecode = True
    task: dict[str, Any] = json.load(sys.stdin)
    return task


class Channel:
    """A private duplicate of the standard output, which itself goes to the standard error."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._descriptor = os.dup(1)
        # The code under test may replace what these modules hold.
        self._write, self._encode = os.write, json.JSONEncoder().encode
        os.dup2(2, 1)

    def say(self, **said: object) -> int:
        """Print one line: the nonce and an object. A line that is too long says so instead.

        Returns how many bytes that took.
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
