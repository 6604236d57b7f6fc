"""What the self-test puts in a program's way: listeners, a secret and a process of the worker's."""

import asyncio
import secrets
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from activities.sandbox.port import Result
from activities.sandbox.probing.probes import Targets
from activities.sandbox.running.backend import base_python

_VARIABLE = "MULL_SELF_TEST"
_SLEEP = "import time; time.sleep(600)"


class Placed:
    """Targets that are there, and whether a program has reached one."""

    def __init__(self, stack: ExitStack) -> None:
        secret = secrets.token_hex(16)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mull-self-test-")))
        (folder / "secret").write_text(secret)
        # Anybody could read it, so that it is the sandbox that hides it.
        folder.chmod(0o755)
        self._process = subprocess.Popen(  # noqa: S603 - the worker's own Python
            [base_python(), "-I", "-S", "-c", _SLEEP], env={_VARIABLE: secret}
        )
        stack.callback(self._end)
        tcp = self._listening(stack, socket.AF_INET, ("127.0.0.1", 0))
        name = f"mull-self-test-{secrets.token_hex(8)}"
        self._listeners = (tcp, self._listening(stack, socket.AF_UNIX, f"\0{name}"))
        port = tcp.getsockname()[1]
        self.targets = Targets(port, name, str(folder / "secret"), secret, self._process.pid)

    def reached(self, result: Result) -> str | None:
        """Say which target was reached, if one was."""
        if self.targets.secret in result.stdout.text + result.stderr.text:
            return "a program read a secret of the worker's"
        if any(_accepts(each) for each in self._listeners):
            return "a program connected to the worker"
        if self._process.poll() is not None or _is_stopped(self._process.pid):
            return "a program signalled a process of the worker's"
        return None

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listening(self, stack: ExitStack, family: int, address: object) -> socket.socket:
        made = stack.enter_context(socket.socket(family))
        made.setblocking(False)
        made.bind(address)  # type: ignore[arg-type] # a name or a pair, by its family
        made.listen()
        return made


@asynccontextmanager
async def placed() -> AsyncIterator[Placed]:
    """Have targets for as long as the block takes."""
    with ExitStack() as stack:
        yield await asyncio.to_thread(Placed, stack)


def _accepts(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _is_stopped(pid: int) -> bool:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return fields[0] in "Tt"
