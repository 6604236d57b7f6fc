"""What becomes of a call for a draft, a report or code."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.multipath import Generated
    from reflection.multipath.loop import Run
    from reflection.multipath.result import Draft, Origin
    from reflection.multipath.state import Mode
    from reflection.run import Part
    from workflows.multipath.nodes.asking import Ended, Lost, lost


def part_of(run: Run) -> Part:
    """Name the part of the spending that the next draft belongs to."""
    return "revising" if run.drafts else "generating"


def keep(run: Run, mode: Mode, reply: Generated | Lost | Ended, author: str | None) -> Ended | None:
    """Keep a new draft; `author` is the person who asked for it.

    Where the first one can't be had the run ends without any. Raises ApplicationError where no
    call for it could be made at all.
    """
    if isinstance(reply, Ended):
        return reply
    if isinstance(reply, Lost) or reply.text is None:
        if isinstance(reply, Lost) and not run.drafts:
            raise reply.failure
        why = reply if isinstance(reply, Lost) else lost(reply.error)
        better = "better " if run.drafts else ""
        return Ended("generation_failed", f"no {better}draft could be had: {why}")
    run.generated(_draft(run, mode, reply, reply.text, author), reply.assembled)
    return None


def _draft(run: Run, mode: Mode, reply: Generated, text: str, author: str | None) -> Draft:
    index, seed, receipt = len(run.drafts), run.request.seed, reply.receipt
    origin: Origin = "refined" if run.drafts else "generated"
    return Draft(
        index=index,
        mode=mode,
        text=text,
        origin=origin,
        author=author,
        model=receipt.model,
        seed=None if seed is None or "seed" in receipt.left_out else seed + index,
        cut=reply.cut,
        attempts=receipt.attempts,
        spending=receipt.spending,
        timestamp=reply.timestamp,
    )
