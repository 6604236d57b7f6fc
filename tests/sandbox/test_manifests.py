"""What a manifest of hostile programs may ask for."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.sandbox.hostile_programs import FOLDER, MANIFESTS, Hostile, every


def listed() -> list[dict[str, Any]]:
    return [
        each
        for name in MANIFESTS
        for each in json.loads((FOLDER / name).read_text("utf-8"))["programs"]
    ]


def test_every_program_is_read() -> None:
    """Each id and each file stands in the manifests once, and each file is in them."""
    files = [each["file"] for each in listed()]

    assert len(every()) == len(files) == len(set(files))
    assert {each.name for each in FOLDER.glob("*.py")} == set(files)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        (None, {"limit": {}}),
        ("limits", {"threads": 3}),
        ("limits", {"wall_seconds": 3}),
        ("required", {"no_files": True}),
        ("required", {"contained": False}),
        ("required", {"no_survivors": False}),
        ("required", {"host_checks": ["no_mounts"]}),
    ],
)
def test_what_nobody_checks_is_refused(part: str | None, wrong: dict[str, Any]) -> None:
    """A limit, a requirement or a check of the host that the tests don't know fails loudly."""
    known = listed()[0]
    Hostile.model_validate(known)

    with pytest.raises(ValidationError):
        Hostile.model_validate(
            {**known, **wrong}
            if part is None
            else {
                **known,
                part: {**known[part], **wrong},
            }
        )


def test_the_limits_of_a_program_are_those_that_it_runs_with() -> None:
    """Seconds are cut to what a test takes, and the rest is as the manifest has it."""
    limits = {"wall_s": 4, "cpu_s": 1, "memory_mb": 128, "disk_mb": 2, "fsize_mb": 4_096}

    made = Hostile.model_validate({**listed()[0], "limits": limits}).program({}, {}).limits

    assert (made.wall_seconds, made.cpu_seconds, made.memory_mb, made.disk_mb) == (0.5, 1, 128, 2)
