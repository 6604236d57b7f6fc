"""The research path: reports, what is wrong with them, and what is beyond the sources."""

from temporalio.client import Client

from activities.documents.folder import LOCK_SECONDS
from tests.scripted import ScriptedRetriever, reflection
from tests.workflows.multipath.running import (
    FINE,
    WRONG,
    ended,
    finding,
    passage,
    research,
    researching,
    run,
    served,
    start,
)
from workflows.times import INDEX_LOCK, retrieval_times


async def test_passages_become_numbered_sources(client: Client) -> None:
    """The n of `[n]` is the passage's place, from 1, in prompts and result alike."""
    model = researching("Low in Cairns [2], high at Burntcoat Head [1].")

    result = await research(client, model, passage(1), passage(2, "In Cairns it is low."))

    assert [(each.number, each.passage.id) for each in result.sources] == [(1, "p1"), (2, "p2")]
    assert "In Cairns it is low." in model.asked("generate_report")[0].prompt
    assert "In Cairns it is low." in model.asked("reflect_on_report")[0].prompt
    assert result.output is not None
    assert "tides-2.md" in result.output
    assert result.warnings == ("a.bin: no text",)


async def test_the_search_is_as_asked_for(client: Client) -> None:
    """Folder and number of passages reach the retriever."""
    retriever = finding(passage())

    async with served(client, researching(FINE), None, retriever):
        await ended(await start(client, docs="tides", passages=3))

    (task,) = retriever.tasks
    assert (task.docs, task.passages) == ("tides", 3)


async def test_a_search_costs_nothing(client: Client) -> None:
    """A search that fails is made again, and counts among the calls of no model."""
    retriever = ScriptedRetriever([OSError("the disk is away"), [passage()]])

    result = await run(client, researching(FINE), None, retriever, docs="tides")

    assert len(retriever.tasks) == 2
    assert {part: spent.calls for part, spent in result.usage.parts.items()} == {
        "generating": 1,
        "evaluating": 2,
        "revising": 0,
        "retried": 0,
        "cancelled": 0,
    }


def test_the_times_of_a_search_have_room_for_all_of_its_waits() -> None:
    """An attempt outlasts the index's lock and the indexing."""
    times = retrieval_times(max_attempts=2)

    assert INDEX_LOCK.total_seconds() == LOCK_SECONDS
    assert times["start_to_close_timeout"].total_seconds() == 60 + 600 + 15
    assert times["schedule_to_close_timeout"].total_seconds() == 2 * (675 + 60) + 3_600
    assert times["heartbeat_timeout"].total_seconds() == 5


async def test_a_refinement_sees_the_report_and_k(client: Client) -> None:
    """The previous report and what is wrong with it go back to the writer; K is of the last."""
    model = researching(WRONG, FINE)

    result = await research(client, model, passage())

    asked = model.asked("generate_report")[1].prompt
    assert WRONG in asked
    assert "mend 1" in asked
    assert [each.origin for each in result.drafts] == ["generated", "refined"]
    assert [len(each.critiques or ()) for each in result.drafts] == [2, 0]
    assert (result.stop_reason, result.open, result.kept) == ("consistent", False, 1)


async def test_what_needs_no_model_is_found_whatever_the_model_says(client: Client) -> None:
    """A citation of a source that there is not keeps K from being empty."""
    model = researching("It is high [7].", FINE, reflect_on_report=[reflection(), reflection()])

    result = await research(client, model, passage())

    (critique,) = result.drafts[0].critiques or ()
    assert (critique.aspect, critique.cited) == ("citation", 7)
    assert (result.stop_reason, result.revisions) == ("consistent", 2)


async def test_suggestions_drive_nothing_and_stand_apart(client: Client) -> None:
    """Ideas beyond D end no loop and begin none; the last ones are in a section of their own."""
    ideas = reflection(suggestions=["View it as a Markov decision process."])

    result = await research(client, researching(FINE, reflect_on_report=[ideas]), passage())

    assert result.suggestions == ("View it as a Markov decision process.",)
    assert (result.stop_reason, result.open, result.revisions) == ("consistent", False, 1)
    assert result.output is not None
    findings, _, beyond = result.output.partition("## Further considerations")
    assert "Markov" in beyond
    assert "Markov" not in findings


async def test_no_creative_leaves_ideas_out(client: Client) -> None:
    """With `creative` false nothing beyond D is asked for or printed."""
    ideas = reflection(suggestions=["View it as a Markov decision process."])
    model = researching(FINE, FINE, reflect_on_report=[reflection("mend"), ideas])

    result = await research(client, model, passage(), creative=False)

    for asked in model.asked("generate_report"):
        assert "no ideas that go beyond" in asked.prompt
        assert "Further considerations" not in asked.prompt
    assert "Markov" not in model.asked("reflect_on_report")[0].prompt
    assert result.suggestions == ()
    assert "Markov" not in (result.output or "")


async def test_a_draft_is_the_report_alone(client: Client) -> None:
    """What the writer thinks aloud and the fence around the whole report are left out."""
    written = f"<think>Where is it high?</think>\n```markdown\n{FINE}\n```"

    result = await research(client, researching(written), passage())

    assert result.drafts[0].text == FINE
