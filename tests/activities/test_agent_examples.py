"""The agent's files of examples/: prompts, a user's tests, a request, and documents."""

from pathlib import Path

import pytest

from activities.documents.folder import FolderRetriever
from activities.documents.retrieval import RetrievalTask
from activities.documents.roots import Roots
from activities.sandbox.port import Sandbox
from mull.multipath.cases import entry_in
from mull.multipath.extraction import examples
from mull.multipath.request import MultiPathRequest
from tests.activities.code_tests.suites import file, tried

EXAMPLES = Path(__file__).parents[2] / "examples"
RIGHT = """\
PARTS = {"M": 1000, "CM": 900, "D": 500, "CD": 400, "C": 100, "XC": 90, "L": 50, "XL": 40}
PARTS |= {"X": 10, "IX": 9, "V": 5, "IV": 4, "I": 1}


def to_roman(number):
    if not 1 <= number <= 3999:
        raise ValueError(number)
    text = ""
    for part, value in PARTS.items():
        text += part * (number // value)
        number %= value
    return text


NUMBERS = {to_roman(number): number for number in range(1, 4000)}


def from_roman(text):
    if text not in NUMBERS:
        raise ValueError(text)
    return NUMBERS[text]
"""
ADDING = """

def from_roman(text):
    return sum(PARTS[each] for each in text)
"""


def text_of(name: str) -> str:
    return (EXAMPLES / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "failed"),
    [(RIGHT, None), (RIGHT + ADDING, "test_roman.py::test_numerals[4-IV]"), ("", "test_roman.py")],
)
async def test_the_roman_numerals_can_be_tested(
    sandbox: Sandbox, code: str, failed: str | None
) -> None:
    """The file's tests hold for code that is right, and name what is wrong elsewhere."""
    report = await tried(sandbox, code, file("test_roman.py", text_of("test_roman.py")))

    assert (report.error and report.error.test) == failed


def test_the_request_for_code_is_valid() -> None:
    """It starts a run as it stands, and its prompt has the function and its examples."""
    request = MultiPathRequest.model_validate_json(text_of("agent.json"))

    assert (request.mode, request.max_revisions, request.limits.wall_seconds) == ("code", 3, 5)
    assert entry_in(request.prompt) == "moving_median"
    assert [each.expected for each in examples(request.prompt, None)] == [
        "[2, 2]",
        "[2.5, 4.0]",
        "[]",
    ]


async def test_the_heating_is_found_in_every_document(tmp_path: Path) -> None:
    """The prompt's words lead into each file of the folder, whatever its kind."""
    retriever = FolderRetriever(Roots([str(EXAMPLES)]), tmp_path)
    task = RetrievalTask(prompt=text_of("heating.txt"), docs="documents", passages=8)

    found = await retriever.retrieve(task)

    names = {each.name for each in (EXAMPLES / "documents").iterdir()}
    assert {each.source for each in found.passages} == names
    assert (found.files, found.left_out) == (5, ())
