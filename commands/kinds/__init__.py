"""What the command line knows of each type of workflow."""

from commands.kinds.answering import Answering, AnyAnswering, Waiting
from commands.kinds.batch import Batch
from commands.kinds.kind import AnyKind, Kind, Live
from commands.kinds.multi_path import MultiPath
from commands.kinds.reflect_on_result import ReflectOnResult
from commands.kinds.self_consistency import SelfConsistency
from reflection.run import Request

ANSWERING: tuple[AnyAnswering, ...] = (SelfConsistency(), ReflectOnResult(), MultiPath())
KINDS: tuple[AnyKind, ...] = (*ANSWERING, Batch())

__all__ = [
    "ANSWERING",
    "KINDS",
    "Answering",
    "AnyAnswering",
    "AnyKind",
    "Batch",
    "Kind",
    "Live",
    "MultiPath",
    "Waiting",
    "kind_for",
    "kind_named",
]


def kind_named(workflow: str | None) -> AnyKind | None:
    """Find what is known of a workflow type by its name; None where it is none of Mull's."""
    return next((each for each in KINDS if each.workflow == workflow), None)


def kind_for(request: Request) -> AnyAnswering:
    """Find what is known of the workflow type that answers this request."""
    return next(each for each in ANSWERING if isinstance(request, each.request))
