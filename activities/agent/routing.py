"""Choosing the path: research or code."""

from activities.agent.receipt import AgentTask, Replied, hear
from activities.language_model import LanguageModel
from reflection.multipath.result import Routing
from reflection.multipath.routing import build_route_prompt, parse_route, route_schema


class RouteTask(AgentTask):
    """A prompt to route; `error` is what was wrong with the last reply to the same."""

    error: str | None = None


class Routed(Replied):
    """Which path the model chose, and why."""

    routing: Routing


async def route(model: LanguageModel, task: RouteTask) -> Routed:
    """Ask once which path a prompt is for, and read the reply."""
    prompt = build_route_prompt(task.prompt, task.error)
    heard = await hear(model, "route", task, prompt, reply_schema=route_schema())
    if heard.text is None:
        routing = Routing(mode=None, reason="", chosen_by="model", error=heard.error)
    else:
        routing = parse_route(heard.text, task.prompt)
    return Routed(
        routing=routing,
        error=routing.error,
        unreadable=routing.error is not None,
        receipt=heard.receipt,
    )
