"""Which calls run side by side, which are answered from records, and how results are cut."""

from collections.abc import Sequence

import pytest
from pydantic_core import from_json, to_json

from mull.text import encoded_size
from mull.turn.approval import canonical
from mull.turn.tools import CallStatus, Tool, ToolCall, ToolCalls, cut_middle, read_arguments
from tests.unit.turn.test_budget import START, budget

TOOLS = {
    tool.name: tool
    for tool in (
        Tool(name="read", read_only=True, idempotent=True, keys=("file:{path}",), group="files"),
        Tool(name="list", read_only=True, idempotent=True, group="files"),
        Tool(name="clock", read_only=True),
        Tool(name="write", keys=("file:{path}",)),
        Tool(name="move", keys=("file:{path}", "index")),
        Tool(name="find", read_only=True, idempotent=True, keys=("file:{path}", "index")),
        Tool(name="mail"),
        Tool(name="set", idempotent=True),
        Tool(name="put", idempotent=True, keys=("file:{path}",)),
    )
}


def calls(*written: str) -> list[ToolCall]:
    """Make calls of lines such as `read a`."""
    return [
        ToolCall(
            index=index, step=1, id=f"c{index}", tool=tool, arguments=canonical({"path": path})
        )
        for index, (tool, _, path) in enumerate(line.partition(" ") for line in written)
    ]


@pytest.mark.parametrize(
    ("asked", "waves"),
    [
        (["read a"], [1]),
        (["read a", "read b", "read c"], [3]),
        (["read a", "read a"], [1, 1]),
        (["read a", "read a", "read b"], [1, 2]),
        (["read a", "read b", "read b"], [2, 1]),
        (["read a", "list", "clock"], [3]),
        (["list", "list"], [1, 1]),
        (["write a"], [1]),
        (["write a", "write b"], [1, 1]),
        (["read a", "write b", "read c", "read d"], [1, 1, 2]),
        (["mail", "read a"], [1, 1]),
        (["nothing", "read a", "nothing"], [1, 1, 1]),
        ([], []),
    ],
)
def test_waves(asked: Sequence[str], waves: Sequence[int]) -> None:
    """Each row of the source's rules: reads of different things together, the rest in order."""
    made = calls(*asked)

    found = ToolCalls(budget(), tools=TOOLS, made=made).waves()

    assert [len(wave) for wave in found] == waves
    assert [call for wave in found for call in wave] == made


@pytest.mark.parametrize(
    ("before", "asked", "answered"),
    [
        ([("mail", "ok")], "mail", False),
        ([], "read a", False),
        ([("read a", "ok")], "read a", True),
        ([("read a", "error")], "read a", False),
        ([("read a", "timeout")], "read a", False),
        ([("read a", "error"), ("read a", "ok")], "read a", True),
        ([("read a", "ok")], "read b", False),
        ([("read a", "ok")], "put a", False),
        ([("set a", "ok"), ("set b", "ok")], "set a", True),
        ([("read a", "ok"), ("mail", "ok")], "read a", True),
        ([("read a", "ok"), ("write b", "ok")], "read a", True),
        ([("read a", "ok"), ("write a", "ok")], "read a", False),
        ([("read a", "ok"), ("write a", "timeout")], "read a", False),
        ([("put a", "ok")], "put a", True),
        ([("put a", "ok"), ("write a", "ok")], "put a", False),
        ([("read a", "ok"), ("move a", "ok")], "read a", False),
        ([("read b", "ok"), ("move a", "ok")], "read b", True),
        ([("find a", "ok"), ("write a", "ok")], "find a", False),
        ([("find b", "ok"), ("move a", "ok")], "find b", False),
    ],
)
def test_records(before: Sequence[tuple[str, CallStatus]], asked: str, answered: bool) -> None:
    """Each row of the source's rules for repeated calls, and what a later write makes stale."""
    made = calls(*[line for line, _ in before], asked)
    turn = ToolCalls(budget(), tools=TOOLS, made=made)
    for index, (_, status) in enumerate(before):
        turn.finish(index, status, "x")

    found = turn.admit(len(before), START)

    assert (found.record_of is not None) == answered
    assert turn.budget.used["tool_calls"] == (not answered)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('{"path": "a", "lines": [1, 2.5]}', {"path": "a", "lines": [1, 2.5]}),
        ('{"lines": 5.0}', {"lines": 5}),
        ("", {}),
        (" {} ", {}),
        ("[1]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"a": 1', "not valid JSON"),
        ('{"a": 1, "a": 2}', "a: stands twice"),
        ('{"a": NaN}', "can't be read"),
        ('{"a": 1e999}', "can't be read"),
        ('{"a": "\\ud800"}', "can't be read"),
        ('{"a": ' + "9" * 5_000 + "}", "can't be read"),
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", "can't be read"),
        ('{"a": ' + "[" * 100_000, "over 32,000 bytes"),
        ('{"a": ' + "[" * 15_000 + "]" * 15_000 + "}", "too deeply"),
        ('{"a": "' + "x" * 200_000 + '"}', "over 32,000 bytes"),
    ],
)
def test_arguments(written: str, found: dict[str, object] | str) -> None:
    """They are read strictly, and what is wrong is said in one short line."""
    read = read_arguments(written)

    if isinstance(found, str):
        assert isinstance(read, str)
        assert found in read
        assert len(read) < 300
    else:
        assert read == found
        assert from_json(to_json(read)) == found


@pytest.mark.parametrize("text", ["a" * 10_000_000, "é\n" * 100_000, "x" * 1_001, "😀" * 5_000])
def test_a_long_result_is_cut_in_the_middle(text: str) -> None:
    """Both ends stay, the size holds in bytes, and the note counts what is left out."""
    cut = cut_middle(text, 1_000)

    assert encoded_size(cut) <= 1_000
    assert cut.startswith(text[:100])
    assert cut.endswith(text[-100:])
    assert "bytes left out here" in cut
    assert cut_middle("short", 1_000) == "short"
