"""A result as a file: whole or not at all."""

import os
import stat
from pathlib import Path

import pytest
import typer

from commands.follow import place_for, write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new text is there, nothing is left beside it, and who may read it stays the same."""
    path = tmp_path / "code.py"
    path.write_text("old")
    path.chmod(0o640)

    write_whole(path, "new\n")

    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["code.py"]


def test_a_link_leads_to_its_file(tmp_path: Path) -> None:
    """What a link names is written, and the link stays one."""
    (tmp_path / "real.py").write_text("old")
    (tmp_path / "link.py").symlink_to(tmp_path / "real.py")

    write_whole(place_for("--out", tmp_path / "link.py"), "new")

    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "real.py").read_text() == "new"


def test_a_device_stays_one() -> None:
    """What is no file is written to, and never replaced."""
    write_whole(place_for("--out", Path(os.devnull)), "new")

    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    """Where the folder is gone meanwhile, the error names the file that was asked for."""
    path = tmp_path / "gone" / "code.py"

    with pytest.raises(FileNotFoundError) as caught:
        write_whole(path, "new")

    assert caught.value.filename == str(path)


@pytest.mark.parametrize(
    ("name", "said"), [(".", "is a folder"), ("nowhere/code.py", "there is no folder")]
)
def test_a_place_where_no_file_can_be_is_refused(
    tmp_path: Path, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is spent, one line says what is wrong."""
    with pytest.raises(typer.Exit) as caught:
        place_for("--out", tmp_path / name)

    assert caught.value.exit_code == 2
    assert said in capsys.readouterr().err
