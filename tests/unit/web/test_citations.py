"""A report with its passages: each stands beside the paragraph that cites it."""

from commands.web.citations import cited
from mull.sheet import Sheet, Text, Verdict

REPORT = """# Heat

A pump costs 9,000 € [1]. It lasts [2, 1].

- one [2]
- two `[1]`

Nothing is cited here, nor in x[1].

<script>alert(1)</script> [3] [9]
"""


def sheet_of(report: str, *numbers: int, kind: str = "markdown") -> Sheet:
    answer = Text.model_validate({"title": "report", "content": report, "kind": kind})
    texts = [Text(title=f"[{one}] a.md", content=f"passage {one}", source=one) for one in numbers]
    verdict = Verdict(words="stopped")
    return Sheet(subject="?", verdict=verdict, answer=answer, texts=tuple(texts))


def test_each_paragraph_has_the_passages_that_it_cites() -> None:
    """In the order of their numbers, once each; code and indexes do not cite."""
    found = cited(sheet_of(REPORT, 1, 2, 3))

    assert [[text.source for text in part.passages] for part in found] == [
        [],
        [1, 2],
        [2],
        [],
        [3],
    ]
    assert found[1].html.startswith("<p>A pump costs")
    assert found[2].html.startswith("<ul>")


def test_what_a_report_says_stays_text() -> None:
    """Its HTML is escaped, as in any Markdown of a run."""
    whole = "".join(part.html for part in cited(sheet_of(REPORT, 1, 2, 3)))

    assert "<script" not in whole
    assert "&lt;script&gt;" in whole


def test_without_passages_or_markdown_it_is_not_taken_apart() -> None:
    """Then the answer is shown as any other."""
    assert cited(sheet_of(REPORT)) == []
    assert cited(sheet_of(REPORT, 1, kind="code")) == []
