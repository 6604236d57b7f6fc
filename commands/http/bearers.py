"""The bearer keys: who may ask, which models, and how much; and the places that their runs take."""

import asyncio
import logging
import re
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, TypeAdapter, field_validator, model_validator
from temporalio.client import WithStartWorkflowOperation, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from commands.http.chat import RefusedError
from mull import Client, MullError, RequestError, Run, RunCancelledError, RunFailedError
from mull.connection import TASK_QUEUE, cancellable
from mull.loops import loop_of
from mull.quota import (
    AGAIN_SECONDS,
    EXHAUSTED,
    MOST_PLACES,
    START_SECONDS,
    WORKFLOW,
    Dollars,
    FreedPlace,
    Granted,
    KeyName,
    Place,
    PlaceTask,
    QuotaRequest,
    quota_id,
)
from mull.request import Frozen, explain, short_name
from mull.text import sentence

SHORTEST = 16
LOCAL = "local"
logger = logging.getLogger("mull.serve")
# Of one key. The server holds ten updates of a workflow in flight, and there may be another server.
ASKING_AT_ONCE = 4
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def digest(token: str) -> str:
    """Return the SHA-256 of a key, which is all that is kept of it."""
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class Bearer(Frozen):
    """A key by its hash, and what its bearer may use.

    `models` are patterns for names such as `mull/ask` and `mull/ask:openai/gpt-5-mini`; in a name
    without a colon the worker chooses the model. `usd_a_day` is in US dollars, None for no limit.
    """

    sha256: Digest = Field(repr=False)
    models: Annotated[tuple[str, ...], Field(min_length=1, max_length=1_000)] = ("*",)
    runs_at_once: int = Field(8, ge=1, le=MOST_PLACES)
    usd_a_day: Dollars | None = None

    @model_validator(mode="before")
    @classmethod
    def _hashed(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.keys().isdisjoint({"key", "sha256"}):
            raise ValueError("expected a table with key, or with sha256, its hash")
        if "key" not in given:
            return given
        if not isinstance(given["key"], str) or len(given["key"]) < SHORTEST:
            raise ValueError(f"key: expected a text of at least {SHORTEST} characters")
        if "sha256" in given:
            raise ValueError("give key or sha256, not both")
        rest = {name: value for name, value in given.items() if name != "key"}
        return {**rest, "sha256": digest(given["key"])}

    @field_validator("models")
    @classmethod
    def _of_mull(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for name in given:
            if not name.startswith(("mull/", "*", "?", "[")):
                raise ValueError(f"expected names such as mull/ask, and not {short_name(name)}")
        return given

    def may_ask(self, models: Iterable[str]) -> bool:
        """Tell whether all these names are among the key's."""
        return all(any(fnmatchcase(name, known) for known in self.models) for name in models)


FILE = TypeAdapter(dict[KeyName, Bearer])


def read_bearers(path: Path) -> dict[str, Bearer]:
    """Read a file of keys in TOML, a table for each. Raises ValueError, which quotes no key."""
    try:
        found = FILE.validate_python(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        # The rest of the message quotes what stands there.
        at = re.findall(r"line \d+(?=, column \d+\)$)", str(error)) or ["the last line"]
        raise ValueError(f"{path}, {at[0]}: not TOML") from None
    except ValueError as error:
        raise ValueError(f"{path}: {explain(error)}") from None
    if LOCAL in found:
        # It would share its runs with a server without keys.
        raise ValueError(f"{path}: {LOCAL} can't be the name of a key; choose another")
    if len({one.sha256 for one in found.values()}) < len(found) or not found:
        raise ValueError(f"{path}: {'two keys are the same' if found else 'it has no key'}")
    return found


class PlacedRun(Run[Any]):
    """A run in a place of its key, which is free again before its result is told."""

    freeing: asyncio.Task[None]

    async def result(self, *, check: bool = False) -> Any:
        """Wait for the result, however long it takes."""
        await asyncio.shield(self.freeing)
        return await super().result(check=check)


class Account:
    """Begins the runs of a key, in places that its workflow counts for all servers: docs/adr/0023.

    Without a `bearer` it limits nobody.
    """

    def __init__(self, client: Client, name: str, bearer: Bearer | None = None) -> None:
        self.client, self.name, self.bearer = client, name, bearer
        self._asking, self._freeing = asyncio.Semaphore(ASKING_AT_ONCE), set[asyncio.Task[None]]()

    def may_ask(self, models: Iterable[str]) -> bool:
        """Tell whether all these names are among the key's."""
        return self.bearer is None or self.bearer.may_ask(models)

    async def begin(self, request: Any, run: str) -> Run[Any]:
        """Start a run, with a key in a place of its own, to which its dollars are bounded.

        Raises RefusedError (429), MullError, RPCError and TimeoutError.
        """
        await self.client.need_workers(loop_of(request).queues(request))
        if self.bearer is None:
            return await self.client.begin(request, run)
        async with asyncio.timeout(START_SECONDS):
            granted = await self._take(self.bearer, run, request.budget_usd)
            usd, place = granted.place.usd, granted.place
            kept = request if usd is None else request.model_copy(update={"budget_usd": usd})
            try:
                begun = await self.client.begin(kept, run)
            except RequestError as error:
                # With the id of a run that goes on, this may be the place of that one.
                if granted.taken and error.field != "id":
                    await self._free(place, 0.0)
                raise
        if not granted.taken:
            return begun
        placed = PlacedRun(begun.temporal, begun.loop, begun.handle)
        placed.freeing = asyncio.create_task(self._free_at_end(place, begun))
        self._freeing.add(placed.freeing)
        placed.freeing.add_done_callback(self._freeing.discard)
        return placed

    async def _take(self, bearer: Bearer, run: str, budget_usd: float | None) -> Granted:
        begun = WithStartWorkflowOperation[Any, Any](
            WORKFLOW,
            QuotaRequest(name=self.name),
            id=quota_id(self.name),
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        most, usd = bearer.runs_at_once, bearer.usd_a_day
        task = PlaceTask(run=run, runs_at_once=most, usd_a_day=usd, budget_usd=budget_usd)
        try:
            async with self._asking:
                with cancellable():
                    taking = self.client.temporal.execute_update_with_start_workflow(
                        "take_place", task, start_workflow_operation=begun, result_type=Granted
                    )
                    granted: Granted = await taking
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            if not isinstance(cause, ApplicationError) or cause.type != EXHAUSTED:
                logger.warning("a place of the key %s: %s", self.name, cause)
                said = "The key's limits could not be looked up: this server's log says more."
                raise RefusedError(503, said, again_seconds=AGAIN_SECONDS) from error
            seconds = float(cause.details[0])
            said = sentence(cause.message)
            code = "runs_at_once" if seconds <= AGAIN_SECONDS else "usd_a_day"
            raise RefusedError(429, said, code=code, again_seconds=seconds) from None
        return granted

    async def _free_at_end(self, place: Place, run: Run[Any]) -> None:
        """Free a place once its run has ended: sooner than its workflow finds that out."""
        with suppress(MullError):
            try:
                record = await run.result()
            except (RunFailedError, RunCancelledError):
                # It has no result, but its record says what it cost.
                record = await run.look()
            await self._free(place, record.usage.cost_usd)

    async def _free(self, place: Place, usd: float | None) -> None:
        handle: Any = self.client.temporal.get_workflow_handle(quota_id(self.name))
        # If it is lost, the key's workflow finds out itself.
        with suppress(RPCError):
            await handle.signal("free_place", FreedPlace(place=place, usd=usd))
