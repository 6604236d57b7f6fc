"""How many calls a run makes at most, and how long its history may become."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from reflection.agents.request import ReflexionRequest
from reflection.batch.request import BatchRequest
from reflection.critique.request import ReflectOnResultRequest
from reflection.multipath.request import MultiPathRequest
from reflection.request import Request
from reflection.sampling.request import SelfConsistencyRequest
from reflection.turn.request import ToolTurnRequest
from reflection.turn.tools import RESULT_BYTES

# Two busy cores with twice as many other processes replay 4 MB in 2.4 s, and 13 MB in 8.4 s.
TASK_TIMEOUT, SMALL_BYTES = timedelta(seconds=5), 4_000_000
# A call's own part of a history.
CALL_BYTES = 2_000
SHORT = (SelfConsistencyRequest, ReflectOnResultRequest, MultiPathRequest, ToolTurnRequest)


def most_calls(request: Any) -> Iterator[tuple[str | None, int]]:
    """Yield the models of a run, each with the most calls of it."""
    match request:
        case SelfConsistencyRequest():
            yield request.model, request.max_responses
        case ReflectOnResultRequest():
            drafts = 1 + request.max_revisions if request.reflect else 1
            yield request.model, drafts
            for judge in request.panel_judges if request.reflect else ():
                yield judge, drafts
        case MultiPathRequest():
            drafts = max(request.r_max(mode) for mode in ("research", "code"))
            yield request.model, 2 + drafts
            yield request.judge, drafts
        case ToolTurnRequest():
            yield request.model, request.max_steps + request.max_reflections
        case ReflexionRequest():
            yield request.model, request.episodes * request.step_limit
            if request.reflects:
                yield request.reflector or request.model, request.episodes
            if request.judge is not None:
                yield request.judge, 2 * request.episodes


def task_timeout(request: Request) -> timedelta | None:
    """Return after how long a workflow task that died with its worker is given to another.

    None, which is Temporal's 10 s, where the history may become large: another worker has to read
    and replay it within that time, on a busy machine too.
    """
    if isinstance(request, BatchRequest):
        # Items in one piece are bounded, pages that come later are not.
        return TASK_TIMEOUT if request.items else None
    if not isinstance(request, SHORT):
        return None
    calls = sum(most for _, most in most_calls(request))
    results = calls * RESULT_BYTES if isinstance(request, ToolTurnRequest) else 0
    size = calls * (len(request.model_dump_json()) + CALL_BYTES + results)
    return TASK_TIMEOUT if size <= SMALL_BYTES else None
