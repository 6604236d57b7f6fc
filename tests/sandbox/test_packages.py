"""Which distributions of the worker a program may import."""

import pytest

from activities.sandbox.packages import importable
from activities.sandbox.port import PackageError, Program
from activities.sandbox.sandbox import ProcessSandbox


def test_always() -> None:
    """Numpy and pytest are there with what they need, and nothing else."""
    found = importable(())

    assert {"numpy", "pytest", "_pytest", "pluggy", "iniconfig", "packaging"} <= set(found)
    assert not {"temporalio", "litellm", "pydantic", "pytest_asyncio"} & set(found)


def test_named() -> None:
    """A named distribution comes with all that it depends on, however its name is written."""
    found = importable(("PyDantic",))

    assert {"pydantic", "pydantic_core", "typing_extensions.py"} <= set(found)
    assert "temporalio" not in found


def test_paths() -> None:
    """Each name leads to a file or folder that is there."""
    found = importable(("pydantic",))

    assert all(path.exists() and path.name == name for name, path in found.items())


def test_unknown() -> None:
    """A distribution that is not installed is refused by its name."""
    with pytest.raises(PackageError, match="no-such-thing is not installed on this worker"):
        importable(("No.Such_Thing",))


@pytest.mark.parametrize(
    ("packages", "status"), [((), "error"), (("pydantic",), "ok")], ids=["not named", "named"]
)
async def test_import(sandbox: ProcessSandbox, packages: tuple[str, ...], status: str) -> None:
    """A program imports what is named, and can't import what is not."""
    code = "import pydantic; print(pydantic.TypeAdapter(int).validate_python('1'))"

    result = await sandbox.run(Program(code=code, packages=packages))

    assert result.status == status, result.stderr.text


async def test_other_packages(sandbox: ProcessSandbox) -> None:
    """What is not named can't be imported, though the worker has it."""
    code = "import importlib.util as i; print([i.find_spec(n) for n in ('temporalio', 'litellm')])"

    result = await sandbox.run(Program(code=code, packages=("pydantic",)))

    assert result.stdout.text == "[None, None]\n"


async def test_unknown_in_a_program(sandbox: ProcessSandbox) -> None:
    """A program that names a distribution that is not here is not run."""
    with pytest.raises(PackageError, match="no-such-thing"):
        await sandbox.run(Program(code="print(1)", packages=("no-such-thing",)))
