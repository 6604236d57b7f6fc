"""What is written of requests and results: what was asked comes first, and what is set alone."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mull.agents.request import ReflexionRequest
from mull.connection import DATA_CONVERTER
from mull.critique.request import ReflectOnResultRequest
from mull.drafts import Result
from mull.loops import LOOPS
from mull.multipath.request import MultiPathRequest
from mull.request import Request
from mull.run import Spending, Usage
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import SelfConsistencyResult
from mull.turn.request import ToolTurnRequest
from mull.turn.session import SessionMessage
from tests.unit.runs import failed, finished, put_in

DEFAULTS = Path(__file__).parent / "golden" / "defaults.json"


def payload(value: object) -> Any:
    """Return a value as it stands in a history."""
    return json.loads(DATA_CONVERTER.payload_converter.to_payloads([value])[0].data)


def read(value: object) -> Any:
    """Return a value as it is read again."""
    converter = DATA_CONVERTER.payload_converter
    return converter.from_payloads(converter.to_payloads([value]), [type(value)])[0]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (SelfConsistencyRequest, {"question": "Is 91 prime?"}),
        (SelfConsistencyRequest, {"question": "Is 91 prime?", "system": "s", "model": "m"}),
        (SelfConsistencyRequest, {"question": "Is it?", "min_responses": 5, "temperature": 0.7}),
        (ReflectOnResultRequest, {"query": "Compare", "model": "m"}),
        (MultiPathRequest, {"prompt": "Write add", "budget_usd": 1.5}),
        (ToolTurnRequest, {"message": "Sum", "context": ["a"], "tools": []}),
        (SessionMessage, {"message": "Sum", "stream": False}),
        (ReflexionRequest, {"task": "share", "environment": "code"}),
    ],
)
def test_a_request_is_what_was_asked(kind: type[Request], given: dict[str, Any]) -> None:
    """Its subject comes first, then what was set; the rest is left out, and read as its default."""
    nothing = {"system": None, "context": (), "budget_usd": None}
    known = {name: value for name, value in nothing.items() if name in kind.model_fields}
    request = kind(**known | given)

    assert payload(request) == given
    assert next(iter(payload(request))) == kind.subject_field
    assert read(request) == request


def test_every_result_is_told_as_one() -> None:
    """None was forgotten."""
    assert all(issubclass(loop.result, Result) for loop in LOOPS)


def test_a_result_is_read_as_it_was() -> None:
    """None and empty defaults are left out; what is required, 0 and an unknown cost are not.

    What queries return, and `--json`, has all fields: programs read them by name.
    """
    run = finished(["A", None, failed(2, "Timeout: no"), put_in(3, "B", "Ann")])
    stands, fields = run.record(in_flight=2), SelfConsistencyResult.model_fields
    unknown = Usage(calls=0, cost_usd=None, parts={"retried": Spending(calls=1, cost_usd=None)})
    ended = run.result().model_copy(update={"usage": unknown})

    assert (read(ended), read(stands)) == (ended, stands)
    assert not {"warnings", "voted_answer", "calibration"} & payload(ended).keys()
    assert {name for name, field in fields.items() if field.is_required()} <= payload(ended).keys()
    usage = payload(ended)["usage"]
    assert (usage["calls"], usage["cost_usd"]) == (0, None)
    assert usage["parts"]["retried"]["calls"] == 1
    assert payload(stands.model_dump(mode="json")).keys() == fields.keys()
    assert json.loads(ended.model_dump_json()).keys() == fields.keys()


def test_a_default_changes_on_purpose_alone() -> None:
    """Runs under way are read with it too, unless a change is guarded by `workflow.patched`.

    `MULL_GOLDEN=write` writes the defaults anew.
    """
    found = {loop.workflow: _defaults(loop.request) for loop in LOOPS}
    if os.environ.get("MULL_GOLDEN") == "write":
        DEFAULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")

    assert found == json.loads(DEFAULTS.read_text())


def _defaults(kind: type[BaseModel]) -> dict[str, Any]:
    return dict(json.loads(kind.model_construct().model_dump_json()))
