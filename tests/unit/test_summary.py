import pytest

from reflection.convergence.words.summary import current_details
from reflection.sampling.loop import Sampling, progress
from reflection.text import usd
from reflection.words.blocks import bar, level, sparkline
from tests.unit.runs import START, failed, finished, put_in, sampled

HOSTILE = "```\n# heading\n<img src=x> [link](http://x) `code` **bold** \x1b[31m \u202e|cell|"


def details(sampling: Sampling, *notes: str, in_flight: int = 0) -> str:
    standing = progress(sampling, in_flight)
    return current_details(standing, sampling.decisions, "4bf92f3577b34da6", notes)


def outside_fences(markdown: str) -> str:
    return "".join(markdown.split("```")[::2])


def test_a_finished_run_is_told_to_the_digit() -> None:
    """The whole text of a run of five answers."""
    sampling = sampled(["129", "129", "139", "129", "129"])

    shown = details(sampling)

    assert shown == (
        "**Stopped (`rule`): the stopping rule is met: confidence 0.8 reaches 0.8"
        " · 5 of at most 10 answers · answer `129` with confidence 0.80**\n\n"
        "```text\n"
        "confidence          ██▆▇▇  0.80\n"
        "normalized entropy  ▁▁█▇▆  0.72\n"
        "\n"
        "#  wave  votes  conf.  H     compared           answer\n"
        "1     1    1-0  1.00   0.00              go on  129\n"
        "2     1    2-0  1.00   0.00              go on  129\n"
        "3     1    2-1  0.67   0.92              go on  139\n"
        "4     1    3-1  0.75   0.81              go on  129\n"
        "5     1    4-1  0.80   0.72  0.8 vs 0.8  stop   129\n"
        "```\n\n"
        "```text\n"
        "votes  share                        answer\n"
        "    4  0.80   ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁  129\n"
        "    1  0.20   ▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  139\n"
        "```\n\n"
        "Spent: 5 calls, 500 tokens in and 200 out, cost $0.0010\n\n"
        "Trace: `4bf92f3577b34da6`"
    )


def test_a_running_wave_is_named() -> None:
    """While a run goes on, the first line names the wave, the calls in flight and the leader."""
    sampling = sampled(["129", "139"])

    first = details(sampling, in_flight=3).splitlines()[0]

    assert first == (
        "**Wave 1 is running, 3 in flight · 2 of at most 10 answers"
        " · leader `129` with confidence 0.50, tied**"
    )


def test_nothing_was_answered_yet() -> None:
    """Before the first answer there is no table and no leader."""
    sampling = sampled([])

    shown = details(sampling, in_flight=5)

    assert "no readable answer yet" in shown
    assert "```" not in shown


def test_an_unreadable_answer_is_no_answer() -> None:
    """A run in which nothing could be read says so."""
    sampling = sampled([failed(0, "ContentPolicyViolationError"), *[None] * 9])

    shown = details(sampling)

    assert "**Stopped (`no_consensus`): the answers do not agree" in shown
    assert "· no readable answer**" in shown
    assert shown.count("(unreadable)") == 10


def test_a_person_is_named() -> None:
    """An answer that a person put in, and a person's wish to finish, carry the name."""
    sampling = finished(["A", put_in(1, "B", "Ann")])

    shown = details(sampling)

    assert "go on  B by Ann" in shown
    assert "stop   - by Ann" in shown


def test_a_review_that_is_needed_is_told_with_its_command() -> None:
    """A run that waits for a person says until when, and what to type."""
    sampling = sampled(["A", "B"] * 5, review_when="high")
    standing = progress(sampling, 0, needs_review=True, review_until=START)

    shown = current_details(standing, sampling.decisions, workflow_id="ask-how-much-7f3a91c2")

    assert (
        "\n\n**Needs review until 2026-03-01 12:00:00 UTC**: "
        "`starter.py review ask-how-much-7f3a91c2`\n\n" in shown
    )


def test_the_newest_decisions_are_kept() -> None:
    """Of more than thirty decisions the newest are shown, and the others counted."""
    sampling = sampled(["A", "B"] * 20, rule="fixed", max_responses=40)

    shown = details(sampling)

    assert "(10 earlier decisions left out)" in shown
    assert "\n10     " not in shown
    assert "\n11     " in shown
    assert "\n40     " in shown


@pytest.mark.parametrize("hostile", [HOSTILE, "`", "``````", "x\n```\n# y", ""])
def test_no_answer_leaves_its_block(hostile: str) -> None:
    """Two fenced blocks stay two, and outside them an answer is one code span."""
    sampling = finished([hostile, "A", hostile, put_in(3, hostile, HOSTILE)])

    shown = details(sampling)

    assert shown.count("```") == 4
    assert outside_fences(shown).count("`") % 2 == 0
    assert not any(ord(each) < 32 and each != "\n" for each in shown)
    assert all(not line.startswith(("#", "<", "|")) for line in outside_fences(shown).splitlines())


def test_a_note_is_text() -> None:
    """Markdown in a note is shown, not obeyed."""
    sampling = sampled(["A"])

    shown = details(sampling, "see <b>[x](http://y)</b> or www.z.com")

    assert r"- see \<b\>\[x\](http\://y)\</b\> or www\.z\.com" in shown


def test_the_web_ui_takes_it_whatever_is_answered() -> None:
    """The worst answers, authors and notes stay within 20,000 bytes."""
    worst = ["\U0001f600\U000e0100" * 5_000 + str(each) for each in range(1_000)]
    sampling = sampled(
        [put_in(each, f"{each}{answer}", answer) for each, answer in enumerate(worst)],
        rule="fixed",
        max_responses=1_000,
    )

    shown = details(sampling, *worst[:100])

    assert len(shown.encode()) <= 20_000


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (None, "unknown"),
        (0.0, "$0.00"),
        (0.0012, "$0.0012"),
        (0.0000123, "$0.000012"),
        (0.5, "$0.50"),
        (1234.5, "$1,234.50"),
    ],
)
def test_dollars_have_the_digits_that_count(amount: float | None, words: str) -> None:
    """A cost has two digits that count at least, and one that nobody knows is called unknown."""
    assert usd(amount) == words


@pytest.mark.parametrize(
    ("share", "block"), [(0.0, "▁"), (0.12, "▁"), (0.13, "▂"), (0.5, "▅"), (0.99, "█"), (1.0, "█")]
)
def test_a_share_is_one_of_eight_blocks(share: float, block: str) -> None:
    """A share from 0 to 1 is the block of its eighth."""
    assert level(share) == block
    assert sparkline([share, share]) == block * 2


@pytest.mark.parametrize(
    ("share", "drawn"), [(0.0, "▁▁▁▁"), (0.01, "▇▁▁▁"), (0.5, "▇▇▁▁"), (1.0, "▇▇▇▇")]
)
def test_a_vote_is_never_invisible(share: float, drawn: str) -> None:
    """A bar is as long as its share, and one column at least where there is a vote."""
    assert bar(share, 4) == drawn
