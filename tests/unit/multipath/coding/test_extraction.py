"""The code in a model's reply."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflection.multipath.coding.reading.extraction import extract_code

F = "def f(x):\n    return x\n"
G = "def g(x):\n    return x + 1, x + 2, x + 3\n"
CALLS = "from solution import f\n\nprint(f(2), f(3), f(4), f(5), f(6), f(7))\n"
TESTS = "def test_f():\n    assert f(2) == 2\n    assert f(3) == 3\n    assert f(4) == 4\n"
TESTS += "\n\nclass TestF:\n    def test_it(self):\n        assert f(5) == 5\n"
FENCED = f'def f(x):\n    """Double it.\n\n    ```\n    f(2)\n    ```\n    """\n    return {F!r}\n'
OUTDENTED = 'def f(x):\n    """\n```python\nf(2)\n```\n"""\n    return x\n'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"```python\n{F}```", F),
        (f"Here it is:\n\n```py\n{F}```\nThat is all.", F),
        (f"```\n{F}```", F),
        (f"~~~python\n{F}~~~", F),
        (f"````python\n{F}````", F),
        (f"```Python3 title=a\n{F}```", F),
        (f"```python\r\n{F}```".replace("\n", "\r\n"), F),
        ("1. So:\n\n   ```python\n   def f(x):\n       return x\n   ```", F),
        (f"```python\n{FENCED}```\nThat is all.", FENCED),
        (f"```python\n{OUTDENTED}```\nThat is all.", OUTDENTED),
        (f"```python\n{F}```\nand\n```python\n{G}```", G),
        (f"```python\n{F}```\n```python\n{CALLS}```", F),
        (f"```python\n{F}```\n```python\n{TESTS}```", F),
        (f"```python\n{TESTS}```\n```python\n{CALLS}```", TESTS),
        ("```python\nf = 2\n```\n```python\nx = 345\n```", "x = 345\n"),
        (f"```bash\npip install everything-there-is-in-the-world\n```\n```python\n{F}```", F),
        (f"```\n[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]\n```\n```python\n{F}```", F),
        (f"```python\n{F}```\n```python\n{G}", F),
        (f"```python\n{F}", F),
        (F, F),
        (f"\n{F}\n\n", F),
        ("print('hello')", "print('hello')\n"),
        (f"<think>\n```python\n{G}```\n</think>\n```python\n{F}```", F),
        ("```python\ndef f(x:\n```\nSorry.", "def f(x:\n"),
    ],
)
def test_the_code_of_a_reply(text: str, code: str) -> None:
    """Of complete blocks the longest that defines more than tests counts, or a whole program."""
    assert extract_code(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Yes",
        "I can't do that.",
        "'quoted'",
        "a, b",
        "```json\n{}\n```",
        "```python\n```",
        "```",
        "# nothing",
    ],
)
def test_a_reply_without_code(text: str) -> None:
    """Words, other languages and empty blocks are no code, though they may parse."""
    assert extract_code(text) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"```python\n{F}```\n```python\n{G}```", F),
        (f"```python\nf = 2\n```\n```python\n{F}```\n```python\n{G}```", F),
        (f"```python\n{F}```\n```python\nprint(f(2), f(3), f(4), f(5), f(6))\n```", F),
        (f"```python\n{G}```\n```python\nx = 1\n```", G),
        (f"```python\n{F}```\n```python\n{F}# and cut", F),
    ],
)
def test_of_several_blocks_the_last_with_the_entry_counts(text: str, code: str) -> None:
    """Where a block defines what is asked for, no longer one takes its place."""
    assert extract_code(text, "f") == code


@given(st.text(alphabet="`~ \n\tpydef():'\"\\\x00\ud800<think>"))
def test_any_text_is_read(text: str) -> None:
    """No text raises, and what comes of it is code or None."""
    code = extract_code(text, "f")

    assert code is None or code.strip()


@pytest.mark.parametrize(
    "text",
    ["```\n" * 20_000, "```python\n" * 10_000, "```python\n" + "(" * 60_000, "`" * 60_000,
     "```python\nx\n" * 3_000 + "```\n" * 3_000, "<think>" * 10_000,
     "```python\n" + ("x = [1, 2, 3, (4, 5)]\n" * 80 + "(\n```\n") * 70],
)  # fmt: skip
def test_a_reply_is_read_in_time(text: str) -> None:
    """No fences, and no block that might end at many of them, take a second."""
    started = process_time()

    extract_code(text, "f")

    assert process_time() - started < 1
