"""Temporal's own command line, as it is called on this machine."""

import shlex
import shutil
import sys
from pathlib import Path


def temporal_command() -> str:
    """Return what starts it: its name where the shell finds it, else its path beside Python."""
    beside = shutil.which("temporal", path=str(Path(sys.executable).parent))
    if shutil.which("temporal") or beside is None:
        return "temporal"
    return shlex.quote(beside)
