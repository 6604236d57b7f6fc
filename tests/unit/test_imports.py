"""What importing a module brings in, indirectly too."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "module",
    [
        "starter",
        "connection",
        "telemetry",
        "worker",
        "workflows.self_consistency",
        "commands.start",
    ],
)
def test_nothing_but_its_adapter_imports_litellm(module: str) -> None:
    """LiteLLM costs seconds and much memory: only a worker that serves models pays them."""
    code = f"import sys, {module}; print({{'litellm', 'xllamacpp', 'openai'}} & set(sys.modules))"

    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert loaded.stdout == "set()\n"


def test_telemetry_goes_nowhere_by_default() -> None:
    """Without an endpoint or a file no span is recorded, and no metric."""
    code = (
        "import telemetry; from opentelemetry import trace\n"
        "telemetry.set_up(None)\n"
        "print(trace.get_tracer('t').start_span('s').is_recording(), telemetry.measure())"
    )

    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env={}
    )

    assert said.stdout == "False None\n"
