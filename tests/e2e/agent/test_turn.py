"""A turn that searches documents, by the command line."""

import json

from tests.e2e.conftest import Cli


def test_a_turn_searches_the_folder_that_it_is_given(cli: Cli, environment: dict[str, str]) -> None:
    """Without one there is nothing to search, and a folder that is not served is refused."""
    folder = environment["MULL_DOCUMENTS"]

    found = cli("turn", "Search it.", "--docs", folder, "--tools", "documents", "--json")
    without = cli("turn", "Search it.", "--tools", "documents", "--max-steps", "1", "--json")
    elsewhere = cli("turn", "Search it.", "--docs", "/etc", "--max-steps", "1", "--json")

    result = json.loads(found.stdout)
    assert (found.returncode, result["tools"]) == (0, ["search_documents", "read_document"])
    assert result["calls"][0]["status"] == "ok"
    assert "Kafka keeps records in a log" in result["answer"]
    assert json.loads(without.stdout)["warnings"][0] == "the worker has no tool documents"
    assert json.loads(elsewhere.stdout)["calls"][0]["status"] == "error"
    assert "MULL_DOCUMENTS" in json.loads(elsewhere.stdout)["calls"][0]["content"]
