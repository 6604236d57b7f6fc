"""The measuring commands for tests: run in-process, without a server."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner, Result

from mull.batch.result import BatchResult, BatchRun, RunStatus


def run(*arguments: str) -> Result:
    app, name = typer.Typer(pretty_exceptions_enable=False), arguments[0]
    app.callback()(lambda: None)
    app.command(name)(getattr(import_module(f"commands.measuring.{name}"), name))
    clean = {"COLUMNS": "100", "MULL_MODEL": "", "MULL_JUDGE_MODEL": ""}
    return CliRunner().invoke(app, list(arguments), env=clean)


def replayed(*arguments: str) -> dict[str, Any]:
    """Return the document of `replay --json`, beside which it only names the files written."""
    result = run("replay", *arguments, "--json")
    assert result.exit_code == 0, result.output
    assert all(line.startswith("wrote the ") for line in result.stderr.splitlines()), result.output
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed


def written(folder: Path, *lines: str) -> str:
    file = folder / "lines.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def run_of(
    item: int, variant: str, status: RunStatus = "completed", tokens: int | None = None
) -> BatchRun:
    """A run of a batch; a thousand tokens cost a dollar."""
    return BatchRun(
        item=item, variant=variant, repeat=0, workflow_id=f"batch/{item}-{variant}-0",
        status=status, error="no reply in time" if status == "failed" else None, tokens=tokens,
        cost_usd=None if tokens is None else tokens / 1_000,
    )  # fmt: skip


def batch_of(*runs: BatchRun) -> BatchResult:
    counts = {
        status: sum(one.status == status for one in runs)
        for status in ("completed", "failed", "cancelled", "not_started")
    }
    tokens = [one.tokens for one in runs]
    return BatchResult(
        runs=runs, stop_reason="budget" if counts["not_started"] else "completed",
        stop_explanation="all have ended", total=len(runs), **counts,
        tokens=None if None in tokens else sum(count or 0 for count in tokens), cost_usd=None,
    )  # fmt: skip
