"""`make demo`: the real model, a real server, and nothing left running."""

import os
import re
import subprocess
import sys
from pathlib import Path

from commands.embedded import is_free
from tests.patience import PATIENCE


def test_the_demo_answers_and_leaves_nothing_running(root: Path, tmp_path: Path) -> None:
    """It shows waves, the answer, why it stopped, and how to see the run's page afterwards."""
    known = {name: value for name, value in os.environ.items() if name != "MULL_MODEL"}

    done = subprocess.run(
        [sys.executable, "-m", "commands.embedded"],
        cwd=tmp_path,
        env={**known, "PYTHONPATH": str(root), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^Final Answer: .* \(Confidence: \d\.\d\d, Uncertainty: \w+\)$", done.stdout, re.MULTILINE
    )
    assert "stopped" in done.stdout
    assert "wave 1" in done.stderr
    assert "a toy" in done.stderr
    page = re.search(r"http://127\.0\.0\.1:(\d+)/namespaces/default/workflows/ask-", done.stderr)
    assert page
    assert done.stderr.index("mull dev") < page.start()
    assert is_free(int(page[1]))
    spans = (tmp_path / "build" / "demo-spans.jsonl").read_text()
    assert '"name": "invoke_workflow SelfConsistencyWorkflow"' in spans
