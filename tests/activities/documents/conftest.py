from pathlib import Path

import pytest

from tests.activities.documents.documents import Documents


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    """An empty folder of documents, and its retriever."""
    return Documents(tmp_path)
