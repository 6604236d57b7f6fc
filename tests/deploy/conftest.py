"""The files of deploy/, as tests read them."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
ALERTS = DEPLOY / "alerts.yaml"
DASHBOARDS = sorted((DEPLOY / "dashboards").glob("*.json"))
WORKERS = DEPLOY / "kubernetes" / "workers"


def documents(source: Path | str) -> list[Any]:
    """Read the documents of a YAML file, or of a text."""
    text = source.read_text("utf-8") if isinstance(source, Path) else source
    return [each for each in yaml.safe_load_all(text) if each is not None]


SERVICES = documents(COMPOSE)[0]["services"]
OWN_SERVICES = ("workflows", "llm", "code", "tools")
RULES = [rule for group in documents(ALERTS)[0]["groups"] for rule in group["rules"]]


def served(command: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a worker until it serves, and return how it ended and its log."""
    lines = []
    with subprocess.Popen(
        command,
        env=environment,
        cwd="/",
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as worker:
        for line in worker.stderr or ():
            lines.append(line)
            if " serving " in line:
                worker.terminate()
    return worker.returncode, "".join(lines)
