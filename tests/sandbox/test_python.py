"""A program finds what it would find under a plain interpreter."""

import json
from typing import Any

import pytest

from activities.sandbox.port import Program
from activities.sandbox.sandbox import ProcessSandbox
from tests.sandbox import backends

SYNTAX_ERROR = """\
  File "main.py", line 1
    def f(:
          ^
SyntaxError: invalid syntax
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "main.py", line 3, in <module>
    f()
  File "main.py", line 2, in f
    1/0
    ~^~
ZeroDivisionError: division by zero
"""
SHARED = """
import mmap, os
shared = mmap.mmap(-1, 9 << 20)
if os.fork() == 0:
    shared[:1] = b"1"
    os._exit(0)
os.wait()
print(shared[:1].decode())
"""


@pytest.mark.parametrize(
    ("code", "stdout", "stderr"),
    [
        ("print(__name__, 'main.py' in __file__)", "__main__ True\n", ""),
        ("import sys; print(sys.argv)", "['main.py']\n", ""),
        ("exit; quit; copyright; help; print(1)", "1\n", ""),
        ("import os; print(os.listdir())", "['main.py']\n", ""),
        ("import os; print(os.getcwd() == os.environ['HOME'])", "True\n", ""),
        ("import tempfile as t; open(t.mkstemp()[1], 'w'); print(1)", "1\n", ""),
        ("print(hash('a') == hash('a'), 'é')", "True é\n", ""),
        ("# coding: latin-1\nprint(len('é'))", "2\n", ""),
        ("raise SystemExit('why')", "", "why\n"),
        ("import atexit; atexit.register(print, 'bye'); 1/0", "bye\n", None),
        ("class A:\n  def __del__(self): print('gone')\na = A()", "gone\n", ""),
        ("import sys; sys.excepthook = lambda *a: print('hook'); 1/0", "hook\n", ""),
        ("import threading as t; t.Timer(0.1, print, ['late']).start()", "late\n", ""),
        ("def f(:", "", SYNTAX_ERROR),
        ("x = '\ud800'", "", None),
        ("\ufeffprint(1)", "1\n", ""),
        ("x = 1\n" * 130_000 + "print(x)", "1\n", ""),
        ("print('x' * 9, end='')", "xxxxxxxxx", ""),
        ("a\0b", "", "SyntaxError: source code string cannot contain null bytes\n"),
        ("def f():\n  1/0\nf()", "", TRACEBACK),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\0')", "\\xff\0", ""),
        ("import subprocess as s; s.run('echo $0 $HOME | wc -w', shell=True)", "2\n", ""),
        ("import ssl, sqlite3; from zoneinfo import ZoneInfo as z; print(z('Asia/Tokyo'))",
         "Asia/Tokyo\n", ""),
        ("import asyncio\nasync def f(): return 1\nprint(asyncio.run(f()))", "1\n", ""),
        (SHARED, "1\n", ""),
    ],
)  # fmt: skip
async def test_program(sandbox: ProcessSandbox, code: str, stdout: str, stderr: str | None) -> None:
    """One file runs as `python main.py` would run it."""
    result = await backends.run(sandbox, code)

    assert result.stdout.text == stdout
    assert stderr is None or result.stderr.text == stderr


@pytest.mark.parametrize(
    ("command", "status", "stdout"),
    [
        (("python", "main.py", "1", "2"), "ok", "['main.py', '1', '2']\n"),
        (("python3", "sub/a b.py", "x"), "ok", "['sub/a b.py', 'x'] sub\n"),
        (("python", "-m", "sub.module"), "ok", "__main__ sub\n"),
        (("python", "-c", "import numpy; print(numpy.arange(3).sum())"), "ok", "3\n"),
        (("sh", "-c", "python -c 'import pytest; print(1)'; ls"), "ok", "1\nmain.py\nsub\n"),
        (("sh", "-c", "{ yes 2>said; } | head -1; cat said"), "ok", "y\n"),
        (("true",), "ok", ""),
        (("false",), "error", ""),
        (("no-such-command",), "error", ""),
        (("python", "no-such-file.py"), "error", ""),
        (("python", "-m", "no_such_module"), "error", ""),
        (("python", "early.py"), "exited_early", ""),
        (("true", "\0"), "error", ""),
        (("python", "main.py", "\ud800"), "ok", "['main.py', '\\ud800']\n"),
    ],
)
async def test_command(
    sandbox: ProcessSandbox, command: tuple[str, ...], status: str, stdout: str
) -> None:
    """A command runs among the files, and its word `python` is the sandbox's own."""
    files = {
        "main.py": "import sys; print(sys.argv)",
        "sub/a b.py": "import sys; print(sys.argv, sys.path[0].rsplit('/')[-1])",
        "sub/module.py": "print(__name__, __package__)",
        "early.py": "import os; os._exit(0)",
    }
    if command[0] == "sh":
        del files["early.py"]

    result = await sandbox.run(Program(files=files, command=command))

    assert (result.status, result.stdout.text) == (status, stdout), result.stderr.text


@pytest.mark.parametrize(
    ("code", "given", "stdout"),
    [
        ("import sys; print(len(sys.stdin.read()))", "", "0\n"),
        ("print(input() + input())", "é\n😀", "é😀\n"),
        ("import sys; print(len(sys.stdin.read()))", "é" * 400_000, "400000\n"),
        ("print('unread')", "é" * 400_000, "unread\n"),
        ("import os, time; os.close(0); time.sleep(0.1); print(1)", "é" * 400_000, "1\n"),
        ("import sys; print(sys.stdin.buffer.read())", "\ud800", "b'\\xed\\xa0\\x80'\n"),
        ("import os; os.read(0, 9); os.close(0); print(1)", "x" * 400_000, "1\n"),
    ],
)  # fmt: skip
async def test_input(sandbox: ProcessSandbox, code: str, given: str, stdout: str) -> None:
    """The input is read to its end, or not, as the program likes."""
    result = await sandbox.run(Program(code=code, input=given))

    assert (result.status, result.stdout.text) == ("ok", stdout)


async def test_numpy(sandbox: ProcessSandbox) -> None:
    """Numpy works, its linear algebra too."""
    code = "import numpy as n\nprint(int(n.linalg.det(n.eye(200) * 1)), n.__version__ > '2')"

    result = await backends.run(sandbox, code)

    assert (result.status, result.stdout.text) == ("ok", "1 True\n")


async def test_pytest(sandbox: ProcessSandbox) -> None:
    """Pytest runs a test file, and its exit code says that a test failed."""
    text = "def test_a(tmp_path): assert tmp_path.exists()\ndef test_b(): assert 1 == 2\n"

    result = await sandbox.run(
        Program(files={"test_it.py": text}, command=("python", "-m", "pytest", "-q"))
    )

    assert (result.status, result.exit_code) == ("error", 1)
    assert "1 failed, 1 passed" in result.stdout.text


async def test_pytest_that_is_ended(sandbox: ProcessSandbox) -> None:
    """Code that ends the process with 0 does not make its tests pass."""
    files = {"test_it.py": "import os\nos._exit(0)\n"}

    result = await sandbox.run(Program(files=files, command=("python", "-m", "pytest")))

    assert result.status == "exited_early"


async def test_environment(sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is the sandbox's own, and has nothing of the worker's."""
    monkeypatch.setenv("MULL_SECRET", "x")
    monkeypatch.setenv("PYTHONSTARTUP", "x")
    code = "import json, os; print(json.dumps(dict(os.environ)))"

    result = await backends.run(sandbox, code)

    seen: dict[str, Any] = json.loads(result.stdout.text)
    assert set(seen) == {
        "HOME", "LANG", "LOGNAME", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "PWD",
        "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONNOUSERSITE", "PYTHONPATH", "TMPDIR",
        "USER",
    }  # fmt: skip
    assert seen["PYTHONHASHSEED"] == "0"
