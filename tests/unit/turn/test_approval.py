"""Rules for tool calls: first match wins, and a request's rules only tighten."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from mull.request import parse_request
from mull.turn.approval import Permission, ToolRule, approve

Made = tuple[str, dict[str, str], str]


def rules(*made: Made) -> list[ToolRule]:
    return [
        ToolRule.model_validate({"tool": tool, "arguments": arguments, "action": action})
        for tool, arguments, action in made
    ]


ALLOW_ALL: Made = ("*", {}, "allow")
DENY_MAIL: Made = ("mail", {}, "deny")
ASK_OUT: Made = ("mail", {"to": "*@else.where"}, "ask")
ALLOW_IN: Made = ("mail", {"to": "*@home"}, "allow")


@pytest.mark.parametrize(
    ("read_only", "workers", "requests", "arguments", "verdict"),
    [
        (True, [], [], {}, "allow"),
        (False, [], [], {}, "ask"),
        (False, [], [ALLOW_ALL], {}, "ask"),
        (False, [], [DENY_MAIL], {}, "deny"),
        (True, [], [("mail", {}, "ask")], {}, "ask"),
        (False, [ALLOW_ALL], [], {}, "allow"),
        (False, [ALLOW_ALL], [("mail", {}, "ask")], {}, "ask"),
        (False, [ALLOW_ALL, DENY_MAIL], [], {}, "allow"),
        (False, [DENY_MAIL, ALLOW_ALL], [], {}, "deny"),
        (False, [DENY_MAIL], [ALLOW_ALL], {}, "deny"),
        (False, [("mail", {}, "ask")], [DENY_MAIL], {}, "deny"),
        (False, [ALLOW_ALL], [ALLOW_ALL, DENY_MAIL], {}, "allow"),
        (False, [ALLOW_IN, ASK_OUT], [], {"to": "ann@home"}, "allow"),
        (False, [ALLOW_IN, ASK_OUT], [], {"to": "bob@else.where"}, "ask"),
        (False, [ALLOW_IN, ALLOW_ALL], [], {"cc": "ann@home"}, "allow"),
        (False, [ALLOW_IN], [], {"cc": "ann@home"}, "ask"),
        (False, [ALLOW_IN], [], {"to": "ann@home\nbob@else.where"}, "ask"),
        (False, [ALLOW_IN], [], {"to": "ANN@HOME"}, "ask"),
        (False, [ALLOW_IN], [], {"to": ["ann@home"]}, "ask"),
        (False, [("mail", {"to": '["ann*'}, "allow")], [], {"to": ["ann@home"]}, "allow"),
        (False, [("mail", {"count": "[1-3]"}, "allow")], [], {"count": 2}, "allow"),
        (False, [("m?il", {}, "allow")], [], {}, "allow"),
        (False, [("MAIL", {}, "allow")], [], {}, "ask"),
        (True, [("other", {}, "deny")], [], {}, "allow"),
    ],
)
def test_the_verdict(
    read_only: bool,
    workers: Sequence[Made],
    requests: Sequence[Made],
    arguments: dict[str, Any],
    verdict: str,
) -> None:
    """The worker's first match or the default, made stricter by the request's first match."""
    known = {"workers": rules(*workers), "requests": rules(*requests)}
    found = approve("mail", arguments, read_only=read_only, **known)

    assert found.action == verdict
    assert found.why


def test_a_rule_says_why() -> None:
    """Its own words are told, or else which rule it was."""
    own = ToolRule(tool="mail", action="deny", why="not on Sundays")
    told = {"not on Sundays": [own], "the rule for mail says deny": rules(DENY_MAIL)}
    for why, workers in told.items():
        assert approve("mail", {}, read_only=False, workers=workers).why == why


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ('{"tool": "a", "action": "permit"}', "action"),
        ('{"tool": "", "action": "deny"}', "tool"),
        ('{"tool": "a", "action": "deny", "arguments": {"x": 1}}', "arguments.x"),
        ('{"tool": "a", "verdict": "deny"}', "verdict"),
        ('{"tool": "' + "a" * 201 + '", "action": "deny"}', "tool"),
    ],
)
def test_a_malformed_rule_is_refused_by_field(given: str, field: str) -> None:
    """A rule with a slip in it never counts as one that allows."""
    with pytest.raises(ValidationError) as error:
        parse_request(ToolRule, given)
    assert field in [".".join(map(str, one["loc"])) for one in error.value.errors()]


@pytest.mark.parametrize("given", ['{"call": 0, "allow": true}', '{"call": 1}', '{"call": "1"}'])
def test_a_permission_names_a_call_and_says_yes_or_no(given: str) -> None:
    """Calls are counted from 1."""
    with pytest.raises(ValidationError):
        parse_request(Permission, given)
