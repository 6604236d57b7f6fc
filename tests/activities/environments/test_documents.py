import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.documents.folder import FolderRetriever
from activities.documents.roots import Roots
from activities.environments import documents
from activities.environments.documents import DocumentEnvironment, document_tasks
from activities.environments.port import Maker, TaskRef
from activities.tools.port import Library
from tests.activities.environments.episodes import Episode, of_examples

EXAMPLES = Path(__file__).parents[3] / "examples"
MILL = """\
# Ostrava mill

The Ostrava mill was built in 1901. Its architect was Jan Kotek, who
had studied in Vienna. It burnt down in 1944. Nobody was hurt. The ruin was sold. A school
stands there now, built in 1960.
"""
OPENING = (
    "ostrava-mill.md: # Ostrava mill The Ostrava mill was built in 1901. Its architect was Jan "
    "Kotek, who had studied in Vienna. It burnt down in 1944. Nobody was hurt."
)
KOTEK = "Jan Kotek was an architect. He studied in Vienna. He was born in Brno in 1862.\n"
PRICES = "place,coal\nOstrava,12.5\nBrno,13\n"
AMONG = "the file of questions is in the folder of documents"


class Place:
    """A folder of documents and a file of questions beside it, each in what a worker allows."""

    def __init__(self, base: Path) -> None:
        self.docs, self.tasks = base / "docs", base / "tasks"
        for folder in (self.docs, self.tasks):
            folder.mkdir()
        for name, text in (
            ("ostrava-mill.md", MILL),
            ("Jan Kotek.txt", KOTEK),
            ("coal.csv", PRICES),
        ):
            (self.docs / name).write_text(text)
        self.ask(answer="Jan Kotek")
        self.environment = {"MULL_TASKS": str(self.tasks), "MULL_DOCUMENTS": str(base)}
        self.retriever = FolderRetriever(Roots([str(base)]), base / "cache")
        # The adapter that workers have is what the environment needs.
        self.library: Library = self.retriever
        self.task = TaskRef(environment="documents", task="1", tasks="questions.jsonl", docs="docs")

    def ask(
        self, answer: object, question: object = "Who built the mill?", known: object = 1
    ) -> None:
        line = json.dumps({"id": known, "question": question, "answer": answer})
        (self.tasks / "questions.jsonl").write_text(line)

    @property
    def maker(self) -> Maker:
        return document_tasks(self.library, self.environment)

    def episode(self, **changes: str | None) -> Episode:
        return Episode(self.maker, self.task.model_copy(update=changes))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Three documents and one question."""
    place = Place(tmp_path)
    yield place
    place.retriever.close()


async def test_search_opens_a_document_and_lookup_goes_through_it(place: Place) -> None:
    """The actions of ReAct: the first sentences, then one sentence with a term after the other."""
    episode = place.episode()

    said = await episode.see(
        "Search[burnt mill]",
        "Lookup[built]",
        "Lookup[built]",
        "Lookup[built]",
        "Lookup[BUILT ]",
        "Lookup[vienna]",
        "Lookup[Prague]",
    )

    assert said == [
        OPENING,
        "(Result 1 / 2) The Ostrava mill was built in 1901.",
        "(Result 2 / 2) A school stands there now, built in 1960.",
        "No more results.",
        "(Result 1 / 2) The Ostrava mill was built in 1901.",
        "(Result 1 / 1) Its architect was Jan Kotek, who had studied in Vienna.",
        "No more results.",
    ]


async def test_a_title_is_found_before_better_words(place: Place) -> None:
    """A search for a document's name opens it, and others are named as similar."""
    (place.docs / "kotek.md").write_text("Jan Kotek, Jan Kotek, Jan Kotek!\n")

    (said,) = await place.episode().see("Search[jan kotek]")

    assert said.startswith("Jan Kotek.txt: Jan Kotek was an architect. He studied in Vienna.")
    assert said.endswith("\nSimilar: kotek.md, ostrava-mill.md")


async def test_what_is_not_found_is_told(place: Place) -> None:
    """And then there is nothing to look up."""
    said = await place.episode().see(
        "Lookup[mill]", "Search[Jan Kotek]", "Search[quetzalcoatl]", "Lookup[Brno]", "Search[?!]"
    )

    assert said[0] == said[3] == "There is no document to look it up in: Search[query] first."
    assert said[2] == "Could not find quetzalcoatl."
    assert said[4] == "Could not find ?!."


async def test_a_line_of_a_table_is_a_sentence(place: Place) -> None:
    """Lines that end in a word are joined in prose, and not in tables."""
    said = await place.episode().see("Search[coal]", "Lookup[brno]")

    assert said[1] == "(Result 1 / 1) Brno,13"


@pytest.mark.parametrize(
    ("action", "read"),
    [
        ("Search[Jan Kotek]", ("search", "Jan Kotek")),
        ("Thought 1: who?\nAction 1: Search[Jan Kotek]", ("search", "Jan Kotek")),
        ("I need a name. Action: search [ Jan Kotek ]", ("search", "Jan Kotek")),
        ("**Search[Jan Kotek]**", ("search", "Jan Kotek")),
        ("`Search[Jan Kotek]`.", ("search", "Jan Kotek")),
        ('Search["Jan Kotek"]', ("search", "Jan Kotek")),
        ('Search("Jan Kotek")', ("search", "Jan Kotek")),
        ("Search: Jan Kotek", ("search", "Jan Kotek")),
        ("- Action 2: Search: Jan Kotek", ("search", "Jan Kotek")),
        ("Search[Jan Kotek", ("search", "Jan Kotek")),
        ("Search[Żółć ńü 東京 [1]]", ("search", "Żółć ńü 東京 [1]")),
        ("Lookup[born]", ("lookup", "born")),
        ("Look up[born]", ("lookup", "born")),
        ("LOOKUP[born] and see", ("lookup", "born")),
        ("Search[mill]\nObservation: x\nAction 2: Lookup[born]", ("lookup", "born")),
        ("Search[mill], then Lookup[born]", ("lookup", "born")),
        ("Finish[yes]", ("finish", "yes")),
        ("Search[]", None),
        ("Search[x]\nLookup[]", ("search", "x")),
        ("I should research[this]", None),
        ("I will search for it.", None),
        ("", None),
        ("[[[[]]]]", None),
    ],
)
def test_the_last_action_that_can_be_read_counts(action: str, read: tuple[str, str] | None) -> None:
    """In the forms in which models write them."""
    assert documents.read_action(action) == read


async def test_finish_ends_the_episode_without_the_marker(place: Place) -> None:
    """What stands in its brackets is the answer."""
    result = await place.episode().act("Thought: I know.\nFinish[Jan Kotek]")

    assert (result.done, result.answer) == (True, "Jan Kotek")


async def test_an_action_that_cannot_be_read_is_told(place: Place) -> None:
    """It is an observation, and no error."""
    assert await place.episode().see("Let me think.", "") == [documents.NO_ACTION] * 2


@pytest.mark.parametrize(
    ("answer", "expected", "em", "f1", "precision", "recall"),
    [
        ("Paris", "Paris", 1, 1, 1, 1),
        ("the city of Paris!", "City of  PARIS", 1, 1, 1, 1),
        ("Paris, France", "Paris", 0, 2 / 3, 1 / 2, 1),
        ("Paris", "Paris, France", 0, 2 / 3, 1, 1 / 2),
        ("in Paris in 1901", "Paris 1901", 0, 2 / 3, 1 / 2, 1),
        ("a b b c", "b b d", 0, 2 / 3, 2 / 3, 2 / 3),
        ("London", "Paris", 0, 0, 0, 0),
        ("yes", "yes", 1, 1, 1, 1),
        ("Yes.", "yes", 1, 1, 1, 1),
        ("yes it was", "yes", 0, 0, 0, 0),
        ("yes", "yes and no", 0, 0, 0, 0),
        ("no", "yes", 0, 0, 0, 0),
        ("no answer", "noanswer", 0, 0, 0, 0),
        ("No one", "no", 0, 0, 0, 0),
        ("U.S.", "US", 1, 1, 1, 1),
        ("well-known", "well known", 0, 0, 0, 0),
        ("1,901", "1901", 1, 1, 1, 1),
        ("An apple", "apple", 1, 1, 1, 1),
        ("Anapple", "apple", 0, 0, 0, 0),
        ("The", "a", 1, 0, 0, 0),
        ("Café", "Cafe", 0, 0, 0, 0),
        ("ŻÓŁĆ", "żółć", 1, 1, 1, 1),
        ("«Paris»", "Paris", 0, 0, 0, 0),
        ("東京 タワー", "東京", 0, 2 / 3, 1 / 2, 1),
        ("!!!", "Paris", 0, 0, 0, 0),
    ],
)
def test_metrics_are_those_of_hotpotqa(
    answer: str, expected: str, em: float, f1: float, precision: float, recall: float
) -> None:
    """Values worked out by hand after its evaluation script."""
    found = documents.metrics(answer, expected)

    known = {"em": em, "f1": f1, "precision": precision, "recall": recall}
    assert found == {name: pytest.approx(value) for name, value in known.items()}


@pytest.mark.parametrize(
    ("answer", "reward", "correct"),
    [
        ("Jan Kotek", 1, True),
        (" **Jan Kotek**.\n", 1, True),
        ("Finish[Jan Kotek]", 1, True),
        ("Finish[Jan Kotek]\n\nThought 5: done.", 1, True),
        (": the Jan Kotek", 1, True),
        ("Jan Kotek]", 1, True),
        ("Jan Kotek\n\nHe studied in Vienna.", 1, True),
        ("Kotek", 2 / 3, False),
        ("It was Jan Kotek", 2 / 3, False),
        ("Jan Novak", 1 / 2, False),
        ("yes", 0, False),
        (" \n", 0, False),
        (None, 0, False),
    ],
)
async def test_the_reward_is_f1_and_an_exact_match_is_correct(
    place: Place, answer: str | None, reward: float, correct: bool
) -> None:
    """What follows the marker is the answer, in brackets or on a line."""
    found = await place.episode().evaluate(answer)

    assert found.reward == found.metrics["f1"] == pytest.approx(reward)
    assert (found.correct, found.metrics["em"]) == (correct, float(correct))
    assert "Kotek" not in found.feedback


async def test_a_number_may_be_expected(place: Place) -> None:
    """A question's answer and its name are texts or numbers."""
    place.ask(answer=1901, known="q/1")

    assert (await place.episode(task="q/1").evaluate("1901")).correct


async def test_the_answer_is_nowhere_but_in_the_evaluation(place: Place) -> None:
    """No setting and no observation has it, and it can't be searched for."""
    place.ask(answer="zanzibar")
    episode = place.episode()

    said: list[object] = [await episode.begin()]
    said += await episode.see("Search[zanzibar]", "Search[questions]", "Search[mill]", "Lookup[z]")
    said += [await episode.evaluate("Kotek"), await episode.evaluate(None)]

    assert "zanzibar" not in repr(said).replace("Could not find zanzibar.", "")
    assert not (await episode.begin()).verifies


async def test_another_worker_rebuilds_the_episode(place: Place) -> None:
    """The document that is open and the place in it come of the actions."""
    episode = place.episode()
    await episode.see("Search[burnt mill]", "Lookup[built]")

    assert await episode.moved().see("Lookup[built]") == [
        "(Result 2 / 2) A school stands there now, built in 1960."
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"docs": None}, "needs a file of questions and a folder"),
        ({"tasks": None}, "needs a file of questions and a folder"),
        ({"docs": "/etc"}, 'the folder "/etc" is not under one that MULL_DOCUMENTS allows'),
        ({"docs": "nowhere"}, 'there is no folder "nowhere"'),
        ({"docs": "tasks"}, AMONG),
        ({"docs": "."}, AMONG),
        ({"tasks": "inner.jsonl"}, AMONG),
        ({"tasks": "../docs/coal.csv"}, 'there is no file "../docs/coal.csv"'),
        ({"task": "2"}, 'there is no task "2" in questions.jsonl; it has 1'),
        ({"tasks": "bare.jsonl"}, 'the task "1" has no answer'),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    place: Place, changes: dict[str, str | None], said: str
) -> None:
    """The file of questions must not be among the documents, by whatever name it is found."""
    (place.tasks / "bare.jsonl").write_text('{"id": 1, "question": "Why?", "answer": " "}')
    (place.docs / "inner.jsonl").write_text((place.tasks / "questions.jsonl").read_text())
    (place.tasks / "inner.jsonl").symlink_to(place.docs / "inner.jsonl")
    inner = changes.get("tasks") == "inner.jsonl"
    if inner:
        place.environment["MULL_TASKS"] += f":{place.docs}"

    with pytest.raises(ApplicationError) as caught:
        await place.episode(**changes).begin()

    assert caught.value.type == "TaskError"
    assert caught.value.non_retryable
    assert said in str(caught.value)
    assert "Kotek" not in str(caught.value)


async def test_the_examples_are_real_episodes(place: Place) -> None:
    """The environment answers their actions as they say, and solves one of the two."""
    place.ask(answer="yes", question=documents.QUESTION)
    for old in place.docs.iterdir():
        old.unlink()
    mill = "The Ostrava mill was built in 1901. Its architect was Jan Kotek."
    kotek = (
        "Jan Kotek was an architect. He studied in Vienna. He built mills. He had a son. He died"
    )
    (place.docs / "ostrava-mill.md").write_text(mill)
    (place.docs / "jan-kotek.md").write_text(f"{kotek} in 1931. He was born in Brno in 1862.")

    found = await of_examples(DocumentEnvironment, place.episode)

    outcomes = [await episode.evaluate(episode.answer) for episode in found]
    assert [outcome.correct for outcome in outcomes] == [True, False]


@pytest.mark.parametrize(
    ("name", "actions", "seen", "answer"),
    [
        ("charge", ["Search[district heating]", "Lookup[standing charge]"], "7,300", "7300"),
        ("gas", ["Search[gas meter]", "Lookup[2021]"], "431", "Yes."),
        ("fund", ["Search[grant fund]", "Lookup[fund]"], "30 June", "30 June"),
        ("offer", ["Search[heat pump]"], "Halvorsen Heat", "Halvorsen Heat"),
        ("boiler", ["Search[district heating]", "Lookup[gas boiler]"], "taken away", "No"),
    ],
)
async def test_the_questions_of_the_examples_can_be_answered(
    tmp_path: Path, name: str, actions: list[str], seen: str, answer: str
) -> None:
    """The documents beside them say so, in a step or two."""
    variables = {"MULL_TASKS": str(EXAMPLES), "MULL_DOCUMENTS": str(EXAMPLES)}
    retriever = FolderRetriever(Roots([str(EXAMPLES)]), tmp_path)
    names = {"task": name, "tasks": "heating-questions.jsonl", "docs": "documents"}
    task = TaskRef(environment="documents", **names)
    episode = Episode(document_tasks(retriever, variables), task)

    said = await episode.see(*actions)
    found = await episode.evaluate(answer)
    retriever.close()

    assert seen in said[-1]
    assert found.correct
