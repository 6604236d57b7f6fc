import os

# Before torch is imported.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
# PPO is one of TRL's experiments, and its version is pinned.
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from pathlib import Path

import pytest
from filelock import FileLock

from bench.tiny_llama import build


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny Llama; one for all processes that test."""
    common = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        common = common.parent
    folder = common / "tiny-llama"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            build(folder)
    return folder
