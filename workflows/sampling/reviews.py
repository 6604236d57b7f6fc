"""The wait for a person to accept an uncertain answer, or to give another one."""

import asyncio
from collections.abc import Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.convergence.sampling import Sampling
    from reflection.review import Finish, Review
    from reflection.sampling.answers import read_answer
    from reflection.size import encoded_size
    from workflows import failures
    from workflows.reviewing import Reviewing
    from workflows.sampling.view import View, decided


def refuse_answer(request: SelfConsistencyRequest, answer: str | None) -> None:
    """Raise ApplicationError, which refuses an update, where an answer of a person can't count."""
    if answer is None:
        return
    if encoded_size(answer) > request.answer_bytes:
        raise failures.refusal("the answer is too long")
    if read_answer(request.answers, answer) is None:
        raise failures.refusal(f"the answer can't be read as {request.answers}")


class AnswerReview:
    """A person's review of an answer; `finish` is their wish that the run shall end instead."""

    def __init__(self, sampling: Sampling, view: View, finish: Callable[[], Finish | None]) -> None:
        self._sampling = sampling
        self._view = view
        self._finish = finish
        self.reviewing = Reviewing(lambda: finish() is not None)

    def refuse(self, given: Review) -> None:
        """Raise ApplicationError, which refuses the update, unless this can be done now."""
        self.reviewing.refuse_unless_waiting()
        if not isinstance(given, Review):
            raise failures.refusal('give one JSON object, such as {"accept": true}')
        if given.revise is not None or given.score is not None:
            raise failures.refusal("an answer of self-consistency can be accepted or replaced")
        refuse_answer(self._sampling.request, given.replace)

    async def hold(self) -> None:
        """Wait for a person, and decide by what they say, or by the end of the wait."""
        timeout = self._sampling.request.review_timeout_seconds
        self.reviewing.begin(timeout)
        self._view.wait_for_review(self.reviewing.until)
        try:
            given = await self.reviewing.wait()
        except TimeoutError:
            said = f"nobody reviewed it within {timeout:g} seconds"
            decided(self._sampling.stop("review_timeout", said, at=workflow.now()))
        except asyncio.CancelledError:
            self._view.end_review()
            raise
        else:
            self._follow(given)
        self._view.end_review()

    def _follow(self, given: Review | None) -> None:
        said = given or self._finish()
        who = (said.author if said else None) or "a person"
        now = workflow.now()
        if given is None:
            stopped = self._sampling.stop("finished_by_person", f"finished by {who}", who, now)
        elif given.replace is None:
            stopped = self._sampling.stop("accepted_by_person", f"accepted by {who}", who, now)
        else:
            self._sampling.replacement = given.replace.strip()
            stopped = self._sampling.stop("replaced_by_person", f"replaced by {who}", who, now)
        decided(stopped)
