"""What may be asked of a sandbox."""

import pytest
from pydantic import ValidationError

from activities.sandbox.port import Program


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give either code, or files and a command"),
        ({"code": "1", "command": ("python",)}, "give either code, or files and a command"),
        ({"code": "1", "files": {"main.py": "2"}}, "main.py is given twice"),
        (
            {"code": "1", "files": {"a": "", "a/b": ""}},
            "a/b lies below another file",
        ),
        (
            {"code": "1", "files": {"main.py/b": ""}},
            "main.py/b lies below another file",
        ),
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


def test_files_in_folders() -> None:
    """Files may lie in folders, several in one."""
    program = Program(code="1", files={"a/b.py": "", "a/c/d e.py": ""})

    assert set(program.files) == {"a/b.py", "a/c/d e.py"}
