"""Drafts that do not parse as what was asked for."""

import pytest

from tests.unit.critique.guarded import HONEST, capped, reason

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n"


@pytest.mark.parametrize(
    ("form", "draft"),
    [
        ("json", '{"a": 1,}'),
        ("json", '{"a": NaN}'),
        ("json", '{"a": -Infinity}'),
        ("json", '{"a": 1, "a": 2}'),
        ("json", '{"a": 1} Hope this helps!'),
        ("json", 'Here it is:\n```json\n{"a": 1}\n```'),
        ("json", "{'a': 1}"),
        ("json", '{"a": 1'),
        ("json", "[" * 5_000 + "]" * 5_000),
        ("json", "  "),
        ("python", "def f(:\n    pass"),
        ("python", "```python\ndef f():\nreturn 1\n```"),
        ("python", "```python\nx = 1\n```\nand\n```python\ny = = 2\n```"),
        ("python", "```bash\nls\n```"),
        ("python", "```python\n# nothing here\n```"),
        ("python", "Here is the code: x = 1"),
        ("python", "x = '\0'"),
        ("python", "x = " + "(" * 5_000),
        ("markdown", "# Title\n\n```python\nx = 1\n"),
        ("markdown", "| a | b |\n|---|---|\n| 1 | 2 | 3 |\n"),
        ("markdown", "| a | b |\n|---|\n| 1 | 2 |\n"),
        ("markdown", "See [the guide](https://reefs.org/a\nfor more."),
        ("markdown", "![reef](https://reefs.org/a.png"),
        ("markdown", "See [the guide(https://reefs.org/a) for more."),
        ("markdown", "##Title\n\nText."),
        ("markdown", "Text <!-- hidden for ever"),
    ],
)
def test_what_does_not_parse_is_capped(form: str, draft: str) -> None:
    """The format that was asked for is kept strictly."""
    assert capped("malformed", draft, format=form) == 0.3


@pytest.mark.parametrize(
    ("form", "draft"),
    [
        ("json", '{"a": [1, 2.5e3, null, "x"]}'),
        ("json", '\n```json\n{"a": 1}\n```\n'),
        ("json", "9" * 6_000),
        ("python", "def f():\n    return '\\d'\n"),
        ("python", "This adds:\n```python\ndef f():\n    return 1\n```\nRun:\n```bash\nls -l\n```"),
        ("python", "```python\nx = 1\n```\n```python\n>>> x\n1\n```"),
        ("markdown", HONEST),
        ("markdown", f"# Title\n\n{TABLE}\nText | more.\n"),
        ("markdown", "| a | b |\n|:--|--:|\n| `x | y` | 2 \\| 3 |\n"),
        ("markdown", "a | b\n--- | ---\n1 | 2\n"),
        ("markdown", "See [Reef (coral)](https://a.org/Reef_(coral)) and [x](#y) in [0, 1)."),
        ("markdown", "#reefs #1 are great\n\n```\n| a | b |\n|---|\n##x\n[a](http://b\n```"),
        ("markdown", "A [link\nover two lines](https://a.org) - and `[x](http://`."),
        ("markdown", "Use `<!--` to begin a comment."),
        (None, '{"a": 1,}'),
    ],
)
def test_what_parses_is_left_alone(form: str | None, draft: str) -> None:
    """Ordinary texts of each format pass, and so does anything where none was asked for."""
    assert capped("malformed", draft, format=form) is None


@pytest.mark.parametrize(
    ("form", "draft", "said"),
    [
        ("json", '{"a": 1,\n "b": }', "line 2, column 7: Expecting value"),
        ("json", '{"a": 1, "a": 2}', "the name 'a' stands twice in one object"),
        ("python", "Text\n```python\nx = 1\ny = = 2\n```", "line 4, column 5: invalid syntax"),
        ("markdown", f"{TABLE}| 3 |\n", "line 4: the table row has 1 columns, its header 2"),
    ],
)
def test_the_reason_names_the_place(form: str, draft: str, said: str) -> None:
    """The writer reads where in the draft the fault is."""
    assert reason("malformed", draft, format=form).endswith(said)
