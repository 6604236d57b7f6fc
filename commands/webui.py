"""Where the Web UI shows a run."""

import os
import socket
from urllib.parse import quote

from connection import address, namespace

NEAR = {"localhost", "127.0.0.1", "::1"}


def run_page(workflow_id: str, run_id: str | None) -> str | None:
    """Return the Web UI's address of a run, or None where no Web UI is known.

    MULL_WEB_UI names it; else a development server's is looked for beside it, 1,000 ports up.
    """
    base = os.environ.get("MULL_WEB_UI") or _beside(address())
    if not base:
        return None
    place = f"{base.rstrip('/')}/namespaces/{quote(namespace())}/workflows"
    return f"{place}/{quote(workflow_id, safe='')}/{run_id}/history" if run_id else place


def _beside(server: str) -> str | None:
    host, _, port = server.rpartition(":")
    if host not in NEAR or not port.isdigit() or int(port) + 1_000 > 65_535:
        return None
    beside = int(port) + 1_000
    try:
        with socket.create_connection((host, beside), timeout=0.3):
            return f"http://{host}:{beside}"
    except OSError:
        return None
