"""What the code was held to, and what came of each test."""

from collections.abc import Sequence

from commands.rendering.multipath.tables import failed_words
from commands.report.multipath.records import own
from commands.report.parts import Html, html, joined, table
from reflection.multipath.result import Draft, MultiPathResult
from reflection.multipath.suite import Suite, TestOutcome
from reflection.multipath.words.wording import draft_words, held_to_words


def tests(result: MultiPathResult) -> Html:
    """Draw each test with what came of it: of the kept draft and the last, as far as is known."""
    suite = result.suite
    if suite is None:
        return Html("")
    told = [each for each in result.drafts if each.report is not None and each.report.outcomes]
    parts = [
        Html(f"<p>The code is held to: <bdi>{html(held_to_words(suite))}</bdi>.</p>"),
        _outcomes(result, told) if told else _cases(suite),
        _file(suite),
    ]
    return joined(each for each in parts if each)


def _outcomes(result: MultiPathResult, told: Sequence[Draft]) -> Html:
    by_draft = [_by_test(each) for each in told]
    names = dict.fromkeys(name for found in by_draft for name in found)
    aside = {each.test for each in result.quarantined}
    headers = ("test", "shall be", *(draft_words(each.index) for each in told), "as it failed last")
    rows = [_row(name, [found.get(name) for found in by_draft], aside) for name in names]
    return table(headers, rows, "Tests")


def _by_test(draft: Draft) -> dict[str, TestOutcome]:
    return {each.test: each for each in draft.report.outcomes} if draft.report else {}


def _row(name: str, found: Sequence[TestOutcome | None], aside: set[str]) -> tuple[str, ...]:
    known = [each for each in found if each is not None]
    failed = [each for each in known if not each.passed]
    label = f"{name} (quarantined)" if name in aside else name
    words = ["-" if each is None else "passed" if each.passed else "failed" for each in found]
    expected = known[-1].expected or "-"
    return (own(label), own(expected), *words, own(failed_words(failed[-1]) if failed else "-"))


def _cases(suite: Suite) -> Html:
    rows = [(own(each.call), own(each.expected)) for each in suite.cases]
    return table(("test", "shall be"), rows, "Tests") if rows else Html("")


def _file(suite: Suite) -> Html:
    if suite.file is None:
        return Html("")
    text = f'<div class="draft code"><bdi>{html(suite.file.text)}</bdi></div>'
    return Html(f"<details><summary>{html(suite.file.name)}</summary>{text}</details>")
