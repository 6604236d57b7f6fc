"""What the SDK makes of the workflows' classes: it drops a validator or a type in silence.

And what it does not watch: workflows run outside its sandbox, so no run may write to a module.
"""

import ast
import inspect
import pkgutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from temporalio.workflow import _Definition

import mull
import worker
from workflows.base import Workflow


@pytest.mark.parametrize("kind", worker.WORKFLOWS)
def test_every_update_has_its_validator_and_a_concrete_type(kind: type) -> None:
    """No update is taken unchecked, and what it is given can be decoded."""
    updates = _Definition.must_from_class(kind).updates

    assert "finish_now" in updates
    for update in updates.values():
        assert update.validator is not None
        assert update.arg_types
        assert not any(inspect.isabstract(given) for given in update.arg_types)
        assert "~" not in str(update.arg_types)


@pytest.mark.parametrize("kind", worker.WORKFLOWS)
def test_no_workflow_overrides_a_handler(kind: type) -> None:
    """An update that is decorated again would lose its validator, and an overridden one be ignored.

    `run` and `__init__` stand in each workflow, which says what it takes and how it is shown.
    """
    handlers = {"progress", "decisions", "review", "finish_now", "_takes_review", "_takes_finish"}

    assert issubclass(kind, Workflow)
    inherited = {name for base in kind.__mro__[1:] for name in vars(base)}
    assert not handlers & inherited & set(vars(kind))
    assert {"run", "__init__"} <= set(vars(kind))
    assert hasattr(kind, "request_type")
    assert hasattr(kind, "make_sheet") or "_sheet" in vars(kind)


def taken(kind: type) -> Iterator[Any]:
    """Yield the types of all that a workflow takes: its start, updates, signals and queries."""
    known = _Definition.must_from_class(kind)
    yield from known.arg_types or ()
    for handlers in (known.updates, known.signals, known.queries):
        for handler in handlers.values():
            yield from handler.arg_types or ()


def unbounded(schema: Any, known: dict[str, Any], place: str, within: str = "") -> Iterator[str]:
    """Name the lists and mappings in a JSON schema that may be of any length."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name and name not in within.split():
        yield from unbounded(known[name], known, place, f"{within} {name}")
    parts = [*schema.get("prefixItems", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if schema.get("type") == "array":
        parts += [schema["items"]] if "items" in schema else []
        if "maxItems" not in schema:
            yield place
    if schema.get("type") == "object" and "properties" not in schema:
        parts += [schema["additionalProperties"]]
        if "maxProperties" not in schema and "enum" not in schema.get("propertyNames", {}):
            yield place
    for part in parts:
        if isinstance(part, dict):
            yield from unbounded(part, known, place, within)
    for field, part in schema.get("properties", {}).items():
        yield from unbounded(part, known, f"{place}.{field}", within)


@pytest.mark.parametrize("kind", [*worker.WORKFLOWS, *worker.HELPERS])
def test_every_list_that_a_workflow_takes_is_bounded(kind: type) -> None:
    """And so is every mapping, however deep it stands, of helpers too.

    What is any JSON, in the items and requests of a batch, is bounded by its bytes.
    """
    schemas = [TypeAdapter(each).json_schema() for each in taken(kind)]

    found = [unbounded(one, one.get("$defs", {}), one.get("title", "")) for one in schemas]

    assert [place for places in found for place in places] == []


def test_an_unbounded_list_is_found() -> None:
    """Wherever it stands: in a choice, a pair, a mapping, or another list."""
    hidden: list[Any] = [
        dict[str, int], tuple[list[int], int], int | list[str], tuple[tuple[int, ...], ...],
    ]  # fmt: skip

    assert [list(unbounded(TypeAdapter(one).json_schema(), {}, "a")) for one in hidden] == [
        ["a"], ["a"], ["a"], ["a", "a"],
    ]  # fmt: skip


MUTATORS = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"}
    | {"setdefault", "sort", "update"}
)
# Filled when a worker starts, by the decorator of guardrails.
GUARDRAILS = "mull/critique/guardrails.py"
KNOWN = {f"{GUARDRAILS}: _GUARDRAILS", f"{GUARDRAILS}: _BY_DEFAULT"}


def written(tree: ast.Module) -> Iterator[str]:
    """Name what functions of a module write to that is the module's."""
    own = {
        name.id
        for statement in tree.body
        for name in ast.walk(statement)
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    for node in ast.walk(tree):
        target: ast.AST | None = None
        if isinstance(node, ast.Global):
            yield ", ".join(node.names)
        elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value if node.func.attr in MUTATORS else None
        if isinstance(target, ast.Name) and target.id in own:
            yield target.id


def test_no_module_holds_what_runs_write_to() -> None:
    """Two runs in one worker share their modules, and a replay finds them as the last run left."""
    root = Path(__file__).parents[2]
    found = {
        f"{path.relative_to(root)}: {name}"
        for room in ("workflows", "mull")
        for path in (root / room).rglob("*.py")
        for name in written(ast.parse(path.read_text()))
    }

    assert found == KNOWN
    assert list(written(ast.parse("A = {}\ndef f():\n    A['b'] = 1"))) == ["A"]
    assert list(written(ast.parse("A = []\ndef f():\n    A.append(1)"))) == ["A"]


def test_every_module_of_the_core_is_in_the_contract_of_purity() -> None:
    """A new module of `mull` is pure, or is named here."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    pure = set(project["tool"]["importlinter"]["contracts"][0]["source_modules"])

    modules = {f"mull.{found.name}" for found in pkgutil.iter_modules(mull.__path__)}

    assert modules - pure == {
        "mull.blocking",
        "mull.client",
        "mull.connection",
        "mull.encryption",
        "mull.handle",
        "mull.keys",
        "mull.news",
        "mull.nexus",
        "mull.plugin",
        "mull.settings",
        "mull.settings_file",
        "mull.talk",
        "mull.telemetry",
        "mull.workflow",
    }
    assert pure - modules == set()
