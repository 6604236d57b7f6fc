"""The files of deploy/, as tests read them."""

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
