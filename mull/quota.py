"""What a bearer key of `mull serve` may use: runs at once, and US dollars a day; pure.

A run takes a place before it starts, with the dollars that it may spend, and gives it back once it
has ended. What ended runs cost counts on the day, by UTC, on which their place became free.
"""

from datetime import date, datetime, time, timedelta
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints

from mull.request import Record, Request
from mull.run import at_most
from mull.text import tally_words, usd

WORKFLOW = "QuotaWorkflow"
EXHAUSTED = "QuotaExhausted"
MOST_PLACES = 1_000
# A server starts a run within START_SECONDS of asking for its place, or not at all. So a place that
# has no run after ABSENT never gets one.
START_SECONDS, ABSENT = 30.0, timedelta(seconds=120)
AGAIN_SECONDS = 5.0

KeyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
RunId = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Dollars = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def quota_id(name: str) -> str:
    """Name the workflow that counts for a key."""
    return f"quota-{name}"


class Place(Record):
    """A run's place: when it was taken, and the dollars that are kept for it.

    None: the key has no limit of dollars.
    """

    run: RunId
    since: datetime
    usd: float | None = None


class QuotaRequest(Request):
    """A key by its name, and what an earlier history knew of it."""

    subject_field = "name"

    name: KeyName
    day: date | None = None
    spent_usd: float = Field(0.0, ge=0, allow_inf_nan=False)
    places: tuple[Place, ...] = Field((), max_length=MOST_PLACES)


class PlaceTask(Request):
    """A run that needs a place, its own budget in dollars, and the limits of its key."""

    run: RunId
    runs_at_once: int = Field(ge=1, le=MOST_PLACES)
    usd_a_day: Dollars | None = None
    budget_usd: Dollars | None = None


class Granted(Record):
    """A run's place; `taken` is false where it had one already."""

    place: Place
    taken: bool


class FreedPlace(Request):
    """The place of a run that has ended, and what it cost in dollars; None: nobody knows."""

    place: Place
    usd: float | None = None


class SeenRun(Record):
    """What the server says of a run; `absent`: it has not started since its place was taken."""

    place: Place
    state: Literal["running", "ended", "absent"]
    usd: float | None = None


class Refusal(NamedTuple):
    """Why there is no place, and after how many seconds there may be one."""

    reason: str
    seconds: float


class Quota:
    """Which runs of a key have places, and what was spent today."""

    def __init__(self, request: QuotaRequest) -> None:
        self.request, self.day, self.spent_usd = request, request.day, request.spent_usd
        self.places = {place.run: place for place in request.places}

    def going_on(self) -> QuotaRequest:
        """Build the request of the history that follows this one."""
        known = {"day": self.day, "spent_usd": self.spent_usd}
        return QuotaRequest(name=self.request.name, places=tuple(self.places.values()), **known)

    def left(self, task: PlaceTask, now: datetime) -> float | None:
        """Return the dollars that are neither spent today nor kept for a run; None: no limit."""
        if task.usd_a_day is None:
            return None
        spent = self.spent_usd if self.day == now.date() else 0.0
        return task.usd_a_day - spent - sum(place.usd or 0.0 for place in self.places.values())

    def refusal(self, task: PlaceTask, now: datetime) -> Refusal | None:
        """Explain why a run gets no place; None if it gets one, or has one."""
        if task.run in self.places:
            return None
        if len(self.places) >= task.runs_at_once:
            said = f"this key has {tally_words(len(self.places), 'run')} under way"
            return Refusal(f"{said}, and may have {task.runs_at_once} at once", AGAIN_SECONDS)
        left = self.left(task, now)
        if left is None or task.usd_a_day is None or not at_most(left, 0.0):
            return None
        kept = sum(place.usd or 0.0 for place in self.places.values())
        said = f"this key may spend {usd(task.usd_a_day)} a day, which is spent"
        if at_most(left + kept, 0.0):
            tomorrow = datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)
            return Refusal(
                f"{said}; a new day begins at 0:00 UTC", (tomorrow - now).total_seconds()
            )
        return Refusal(f"{said} or kept for runs that are under way", AGAIN_SECONDS)

    def take(self, task: PlaceTask, now: datetime) -> Granted:
        """Give a run its place, with its own budget or an equal share of what is left of the day.

        The run is held to that, so all runs together exceed the limit by at most one call each.
        """
        if (had := self.places.get(task.run)) is not None:
            return Granted(place=had, taken=False)
        kept = self.left(task, now)
        if kept is not None:
            share = kept / (task.runs_at_once - len(self.places))
            kept = share if task.budget_usd is None else min(task.budget_usd, kept)
        self.places[task.run] = Place(run=task.run, since=now, usd=kept)
        return Granted(place=self.places[task.run], taken=True)

    def free(self, freed: FreedPlace, now: datetime) -> None:
        """Free a place, once; what was kept for its run is spent if nobody knows what it cost."""
        if self.places.get(freed.place.run) != freed.place:
            # It was freed before, and the run that has it now is a later one with the same id.
            return
        del self.places[freed.place.run]
        if self.day != now.date():
            self.day, self.spent_usd = now.date(), 0.0
        self.spent_usd += (freed.place.usd or 0.0) if freed.usd is None else freed.usd

    def see(self, seen: SeenRun, now: datetime) -> None:
        """Free the place of a run that has ended, or that was not started in time."""
        if seen.state == "ended":
            self.free(FreedPlace(place=seen.place, usd=seen.usd), now)
        elif seen.state == "absent" and now - seen.place.since >= ABSENT:
            self.free(FreedPlace(place=seen.place, usd=0.0), now)
