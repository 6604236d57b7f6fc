import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.scripted_endpoint import Scripted, ScriptedEndpoint


def post(server: ScriptedEndpoint, **body: Any) -> str:
    request = urllib.request.Request(  # noqa: S310 - a loopback address
        f"{server.url}/chat/completions", json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310 - as above
        return str(json.load(response)["choices"][0]["message"]["content"])


def test_replies_come_in_their_order() -> None:
    """A text, a reply and a function of the request are given one after the other."""
    with ScriptedEndpoint(["one", Scripted("two"), lambda body: body["model"]]) as server:
        texts = [post(server, model="three") for _ in range(3)]

    assert texts == ["one", "two", "three"]


def test_replies_come_by_their_seed() -> None:
    """The seed of a request chooses its reply, in whichever order requests come."""
    with ScriptedEndpoint(by_seed={1: "one", 2: "two"}) as server:
        texts = [post(server, seed=seed) for seed in (2, 1, 2)]

    assert texts == ["two", "one", "two"]


def test_an_unscripted_request_fails_on_both_sides() -> None:
    """A request too many gets a 500 that says so, and the test that made it fails."""

    def ask_too_much() -> None:
        with ScriptedEndpoint() as server:
            with pytest.raises(urllib.error.HTTPError, match="500") as raised:
                post(server)
            assert b"no scripted reply to request 1" in raised.value.read()
            raised.value.close()

    with pytest.raises(AssertionError, match="1 unscripted: no scripted reply to request 1"):
        ask_too_much()
