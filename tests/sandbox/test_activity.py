"""What may be asked of a sandbox, what a program may import, and what the activity returns."""

import asyncio
from collections.abc import Callable

import pytest
from pydantic import ValidationError
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment

from activities.sandbox.packages import importable
from activities.sandbox.port import PackageError, Program, SandboxActivities, SandboxError
from activities.sandbox.sandbox import ProcessSandbox
from tests.patience import PATIENCE
from tests.scripted import ScriptedSandbox


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give either code, or files and a command"),
        ({"code": "1", "command": ("python",)}, "give either code, or files and a command"),
        ({"code": "1", "files": {"main.py": "2"}}, "main.py is given twice"),
        ({"code": "1", "files": {"a": "", "a/b": ""}}, "a/b lies below another file"),
        ({"code": "1", "files": {"main.py/b": ""}}, "main.py/b lies below another file"),
        ({"code": "1", "files": {"../a": ""}}, "should match pattern"),
        ({"code": "1", "files": {"/a": ""}}, "should match pattern"),
        ({"code": "1", "files": {"a/.b": ""}}, "should match pattern"),
        ({"code": "1", "files": {"a": "x" * 1_000_000}}, "1,000,001 bytes"),
    ],
)
def test_refused(fields: dict[str, object], message: str) -> None:
    """A program that could not be laid out as it says is refused, and it is said why."""
    with pytest.raises(ValidationError, match=message):
        Program.model_validate(fields)


@pytest.mark.parametrize(
    ("names", "needed", "not_there"),
    [
        (
            (),
            {"numpy", "pytest", "_pytest", "pluggy", "iniconfig", "packaging"},
            {"temporalio", "litellm", "pydantic", "pytest_asyncio"},
        ),
        (("PyDantic",), {"pydantic", "pydantic_core", "typing_extensions.py"}, {"temporalio"}),
    ],
)
def test_importable(names: tuple[str, ...], needed: set[str], not_there: set[str]) -> None:
    """Numpy, pytest and what is named, however it is written, are there with what they need."""
    found = importable(names)

    assert needed <= set(found)
    assert not not_there & set(found)
    assert all(path.exists() and path.name == name for name, path in found.items())


@pytest.mark.parametrize(
    ("packages", "found"), [((), [False] * 3), (("pydantic",), [True, False, False])]
)
async def test_import(
    sandbox: ProcessSandbox, packages: tuple[str, ...], found: list[bool]
) -> None:
    """A program imports what is named, and nothing else that the worker has."""
    names = ("pydantic", "temporalio", "litellm")
    code = f"import importlib.util as i; print([i.find_spec(n) is not None for n in {names}])"

    result = await sandbox.run(Program(code=code, packages=packages))

    assert result.stdout.text == f"{found}\n", result.stderr.text


async def test_unknown_in_a_program(sandbox: ProcessSandbox) -> None:
    """A program that names a distribution that is not here is not run."""
    with pytest.raises(PackageError, match="no-such-thing is not installed on this worker"):
        await sandbox.run(Program(code="print(1)", packages=("No.Such_Thing",)))


async def test_result(sandbox: ProcessSandbox) -> None:
    """What the program did is the activity's result, a failure of its own too."""
    activities = SandboxActivities(sandbox)

    result = await ActivityEnvironment().run(activities.run_code, Program(code="1/0"))

    assert (result.status, result.backend) == ("error", sandbox.name)


@pytest.mark.parametrize(
    ("fault", "kind", "non_retryable"),
    [
        (SandboxError("no namespace"), "sandbox_error", False),
        (PackageError("x is not installed on this worker"), "PackageError", True),
    ],
)
async def test_fault(fault: SandboxError, kind: str, non_retryable: bool) -> None:
    """A fault of the sandbox is a failure, retried unless no try like it can work."""
    activities = SandboxActivities(ScriptedSandbox([fault]))

    with pytest.raises(ApplicationError, match=str(fault)) as caught:
        await ActivityEnvironment().run(activities.run_code, Program(code="1"))

    assert (caught.value.type, caught.value.non_retryable) == (kind, non_retryable)


async def test_cancelled(sandbox: ProcessSandbox, orphans: Callable[[], set[int]]) -> None:
    """A cancelled activity ends its program first."""
    environment = ActivityEnvironment()
    running = asyncio.ensure_future(
        environment.run(SandboxActivities(sandbox).run_code, Program(code="while True: 0"))
    )
    while not orphans():
        await asyncio.sleep(0.01)

    environment.cancel()

    with pytest.raises((CancelledError, asyncio.CancelledError)):
        await asyncio.wait_for(running, PATIENCE)
    assert orphans() == set()
