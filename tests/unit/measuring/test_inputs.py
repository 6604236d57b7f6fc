"""What the measuring commands read and refuse before anything is started."""

import sys
from functools import partial
from pathlib import Path

import pytest

from commands.measuring.calibrate import read_example
from commands.measuring.compare import read_question
from commands.plans import batch_of, pages_of, read_lines
from mull.batch.request import BatchPage, Item
from tests.unit.measuring.commands import run, written

EXAMPLES = Path(__file__).parents[3] / "examples"
LABELLED = '{"query": "Why?", "draft": "secret", "label": 1}'
QUESTION = '{"question": "secret?", "gold": "42"}'
JUDGE = ("--judge", "a")


def test_the_examples_can_be_read() -> None:
    """The labelled drafts have both classes by two writers, and every question a number as gold."""
    examples = read_lines(EXAMPLES / "labelled-drafts.jsonl", read_example, "")
    questions = read_lines(
        EXAMPLES / "questions.jsonl", partial(read_question, "number"), "", exact=True
    )

    kinds = {(one.writer, one.label >= 0.5) for one in examples}
    assert len(examples) == 18
    assert kinds == {(f"made-up/{name}", side) for name in "ab" for side in (True, False)}
    assert [one.gold for one in questions] == [
        "308", "7.4", "129", "155", "142", "100", "2", "36", "60", "12",
    ]  # fmt: skip


LONG = "secret" * 20_000
WRONG = {
    "calibrate": [
        ("{secret", "not JSON; each line must be one JSON object"),
        ("[" * 100_000, "not JSON"),
        ('["secret"]', "each line must be one JSON object"),
        ('{"draft": "secret", "label": 1}', "query: missing"),
        ('{"query": "secret", "draft": "  ", "label": 1}', "draft: must not be empty"),
        ('{"query": "q", "draft": "secret"}', "label: missing"),
        ('{"query": "q", "draft": "secret", "label": 1.01}', "label: should be less than"),
        ('{"query": "q", "draft": "secret", "label": NaN}', "label: should be a finite number"),
        ('{"query": "q", "draft": "secret", "label": "good"}', "label: should be a valid number"),
        ('{"query": "q", "draft": "secret", "label": 1, "writer": 3}', "writer: should be a valid"),
        (f'{{"query": "q", "draft": "{LONG}", "label": 1}}', "the limit of 92,857"),
    ],
    "compare": [
        ('{"gold": "secret"}', "question: missing"),
        ('{"question": "secret"}', "gold: missing"),
        ('{"question": "secret", "gold": ["secret"]}', "gold: should be a valid string"),
        ('{"question": "secret", "gold": true}', "gold: should be a valid string"),
        ('{"question": "secret", "gold": "secret"}', "gold can't be read as number"),
        (f'{{"question": "{LONG}", "gold": 1}}', "the limit of 100,000"),
    ],
    "replay": [
        ("[secret]", "each line must be one JSON object"),
        ('{"answers": [NaN]}', "answers.0: should be a valid string"),
        ('{"id": 1, "gold": "secret"}', "answers: missing"),
        ('{"answers": []}', "answers: List should have at least 1 item"),
        ('{"answers": "secret"}', "answers: should be a valid list"),
        ('{"answers": [["secret"]]}', "answers.0: should be a valid string"),
        ('{"gold": ["secret"], "answers": ["4"]}', "gold: should be a valid string"),
        ('{"answers": ["4", "5"], "ok": [1]}', "1 values in ok for 2 answers"),
        ('{"answers": ["4"], "ok": [2]}', "ok.0: should be less than or equal to 1"),
        ('{"answers": ["4"], "ok": [0.5]}', "ok.0: should be a multiple of 1"),
        ('{"answers": ["4"], "ok": [[1]]}', "ok.0: should be a valid number"),
        ('{"answers": ["4"], "ok": 1}', "ok: should be a valid list"),
        ('{"gold": " ", "answers": ["4"]}', "gold can't be read as an answer"),
    ],
}
GOOD = {
    "calibrate": LABELLED,
    "compare": QUESTION,
    "replay": '{"answers": ["secret", null], "ok": [1, 0]}',
}
NEEDED = {"calibrate": JUDGE, "compare": ("--answers", "number"), "replay": ()}


@pytest.mark.parametrize(
    ("command", "line", "said"), [(name, *row) for name, rows in WRONG.items() for row in rows]
)
def test_a_wrong_line(tmp_path: Path, command: str, line: str, said: str) -> None:
    """The message says which line and why, and never what stands in it."""
    file = written(tmp_path, GOOD[command], "", line)

    refused((command, file, *NEEDED[command]), "line 3: ", said)


@pytest.mark.parametrize("command", WRONG)
def test_a_file_that_is_empty_or_not_there(tmp_path: Path, command: str) -> None:
    """The form of a line is shown; what is wrong with the file is said before all else."""
    refused((command, written(tmp_path, "")), "is empty: expected lines like")
    refused((command, str(tmp_path / "absent.jsonl")), "No such file")
    refused((command, str(tmp_path)), "Is a directory")


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("calibrate", (), "name a judge with --judge MODEL"),
        ("calibrate", (*JUDGE, *JUDGE), "the same model is given twice"),
        ("calibrate", ("--judge", " "), "--judge: "),
        ("calibrate", ("--judge", "http://evil/x"), "--judge: an address"),
        ("calibrate", (*JUDGE, "--criteria", "taste"), "--criteria: unknown preset"),
        ("calibrate", (*JUDGE, "--html", "/none/such/page.html"), "there is no folder /none/such"),
        ("calibrate", (*JUDGE, "--budget-usd", "0"), ": should be greater than 0"),
        ("calibrate", (*JUDGE, "--id", "i" * 101), "--id: at most 100 bytes"),
        ("compare", ("--methods", "single,guess"),
         "--methods: expected one or more of single,reflect"),
        ("compare", ("--methods", ","), "--methods: expected one or more of"),
        ("compare", ("--answers", "llm"), "llm needs a model"),
        ("compare", ("--criteria", "taste"), "--criteria: unknown preset"),
        ("compare", (*JUDGE, *JUDGE), "two judges are the same model"),
        ("compare", ("--max-responses", "2000"), "responses"),
        ("replay", ("--answers", "llm"), "llm needs a model"),
        ("replay", ("--answers", "words"),
         "--answers: expected one of exact, text, number, choice"),
        ("replay", ("--rule", "luck"), "unknown rule; expected one of combined, confidence"),
        ("replay", ("--max-responses", "0"), ""),
        ("replay", ("--max-responses", "1001"), ""),
        ("replay", ("--reorderings", "0"), ""),
    ],
)  # fmt: skip
def test_wrong_options(tmp_path: Path, command: str, options: tuple[str, ...], said: str) -> None:
    """What is wrong is one line and exit code 2, before anything is paid for."""
    refused((command, written(tmp_path, GOOD[command]), *options), said)


@pytest.mark.parametrize(("lines", "pages"), [(125, []), (501, [125] * 4 + [1])])
def test_a_file_of_any_length(lines: int, pages: list[int]) -> None:
    """With four runs a line, 125 lines are in the request itself, and more come in pages of 125."""
    items: list[Item] = [{"query": str(place), "draft": "x"} for place in range(lines)]
    variants = [{"name": "judge-1", "workflow": "ReflectOnResultWorkflow", "repeats": 4}]

    request, found = batch_of(items, variants, {"max_concurrency": 3})

    assert [len(page) for page in found] == pages
    assert (request.pages, len(request.items)) == (len(pages), 0 if pages else lines)
    assert [item for page in found for item in page] == (items if pages else [])


def test_lines_of_which_each_makes_too_many_runs(tmp_path: Path) -> None:
    """A page of one line could hold no more than 500: that is said before the batch is begun."""
    judges = [word for number in range(25) for word in ("--judge", f"a{number}")]
    file = written(tmp_path, GOOD["calibrate"], GOOD["calibrate"])

    refused(("calibrate", file, *judges, "--repeats", "20"), "525 runs exceed the limit of 500")


def test_items_that_just_fill_a_page() -> None:
    """With its brackets and commas a page has 250,000 bytes, and not one more."""
    pages = pages_of([{"draft": "x" * 487}] * 500, 500)

    assert [BatchPage(number=0, items=tuple(page)) for page in pages]
    assert [len(page) for page in pages] == [499, 1]


def refused(arguments: tuple[str, ...], *said: str) -> None:
    """Expect exit code 2, all of this on standard error, and no word of the file."""
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert all(words in result.stderr for words in said), result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("calibrate", "x", *JUDGE), ("compare", "x"), ("replay", "x", "--calibrate", "map.json")],
)
def test_without_scipy_one_line_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Before anything is asked; what needs no scipy works."""
    for name in [name for name in sys.modules if name.partition(".")[0] in {"scipy", "numpy"}]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("scipy", "numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    file = written(tmp_path, '{"gold": "4", "answers": ["4", "4", "4"]}')
    name, _, *rest = arguments

    refused, replayed = run(name, file, *rest), run("replay", file, "--json")

    said = "replay --calibrate" if name == "replay" else name
    assert refused.exit_code == 2
    get = "pip install '.[measure]', where . is Mull's folder or its wheel"
    assert refused.stderr == f"Error: {said} needs scipy: {get}.\n"
    assert replayed.exit_code == 0
