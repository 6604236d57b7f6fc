import pytest

from commands.kinds import ANSWERING, KINDS, kind_for, kind_named
from commands.kinds.batch import Batch
from commands.kinds.multi_path import MultiPath
from commands.kinds.reflect_on_result import ReflectOnResult
from commands.kinds.self_consistency import SelfConsistency
from reflection.critique.loop import result
from reflection.critique.request import ReflectOnResultRequest
from reflection.critique.result import Draft
from reflection.multipath.request import MultiPathRequest
from reflection.sampling.loop import result as voted
from reflection.sampling.request import SelfConsistencyRequest
from tests.unit.critique.reflected import reflected
from tests.unit.runs import sampled


def test_a_type_is_known_by_its_name_and_by_its_request() -> None:
    """What the server calls a run, and what a command starts it with, lead to the same."""
    assert isinstance(kind_named("ReflectOnResultWorkflow"), ReflectOnResult)
    assert isinstance(kind_named("SelfConsistencyWorkflow"), SelfConsistency)
    assert isinstance(kind_named("MultiPathWorkflow"), MultiPath)
    assert isinstance(kind_named("BatchWorkflow"), Batch)
    assert isinstance(kind_for(ReflectOnResultRequest(query="q")), ReflectOnResult)
    assert isinstance(kind_for(SelfConsistencyRequest(question="q")), SelfConsistency)
    assert isinstance(kind_for(MultiPathRequest(prompt="p")), MultiPath)


def test_a_run_of_another_type_is_none_of_mulls() -> None:
    """A name that is not known, and no name, lead to nothing."""
    assert kind_named("OrderWorkflow") is None
    assert kind_named(None) is None


def test_each_type_has_its_own_names() -> None:
    """No two types share a workflow's name or the beginning of an id."""
    assert len({each.workflow for each in KINDS}) == len(KINDS) == 4
    assert len({each.command for each in ANSWERING}) == len(ANSWERING) == 3


def test_a_person_makes_an_answer_conclusive() -> None:
    """Answers that did not agree are a result once a person accepted or replaced it."""
    undecided = voted(sampled(["A", "B"] * 5)).model_copy(update={"stop_reason": "no_consensus"})
    accepted = undecided.model_copy(update={"stop_reason": "accepted_by_person"})

    assert not SelfConsistency().conclusive(undecided)
    assert SelfConsistency().conclusive(accepted)


@pytest.mark.parametrize(
    ("score", "bar", "said"),
    [
        (0.8, 0.8, None),
        (0.79, 0.8, "score 0.79 is below 0.8"),
        (None, 0.0, "no score shows that the draft reaches 0"),
    ],
)
def test_the_bar_is_held_against_the_score(
    score: float | None, bar: float, said: str | None
) -> None:
    """A score at the bar meets it, and where there is no score nothing does."""
    ended = result(reflected([0.8])).model_copy(update={"score": score})

    assert ReflectOnResult().below(ended, bar) == said


def test_a_result_without_a_draft_is_none() -> None:
    """Only a draft is a result worth the name."""
    ended = result(reflected([0.8]))

    assert ReflectOnResult().conclusive(ended)
    assert not ReflectOnResult().conclusive(ended.model_copy(update={"draft": None}))


@pytest.mark.parametrize("text", ["exact", "no end of line", "two\n\n", " \t x ", "ü\u2028日本"])
def test_a_draft_is_written_to_the_letter(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In a file or a pipe the draft is what the result holds, and nothing else."""
    draft = Draft(index=0, text=text, origin="generated")
    ended = result(reflected([0.8])).model_copy(update={"draft": text, "drafts": (draft,)})

    ReflectOnResult().print_result(ended)

    assert capsys.readouterr().out == text
