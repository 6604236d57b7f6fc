"""The environment `documents`: a question over a folder, with Search, Lookup and Finish.

The actions are those of ReAct, and the metrics those of HotpotQA's evaluation script. Of the
expected answer only the evaluation leaves this object.
"""

import asyncio
import os
import re
import string
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import PurePath

from activities.documents.formats import TABLES
from activities.documents.retrieval import RetrievalError, RetrievalTask
from activities.documents.roots import Roots
from activities.environments.port import (
    Environment,
    Evaluation,
    Maker,
    StepResult,
    TaskError,
    TaskRef,
)
from activities.environments.tasks import episode, find_task, task_file
from activities.tools.port import Library
from mull.agents.memory import ANSWER, ReflectorExample
from mull.text import fold, words

DOCUMENTS = "documents"
PASSAGES, TITLE = 20, 200
SENTENCES = SIMILAR = 5

INSTRUCTIONS = f"""\
Answer the question from the documents. In each step think first, in a sentence or two, and then \
take one action, on a line of its own at the end:

Search[query]: find the document that fits best, and see its first sentences.
Lookup[term]: see the next sentence with this term in the document that was found last.
Finish {ANSWER} answer: give the answer, and end the episode. An answer is as short as can be: a \
name, a number, a date, yes or no."""
QUESTION = "Was the architect of the Ostrava mill born before the mill was built?"
TO_MILL = "I need the mill first: its year, and who it is by.\nSearch[architect of Ostrava mill]"
MILL = """\
ostrava-mill.md: The Ostrava mill was built in 1901. Its architect was Jan Kotek.
Similar: jan-kotek.md"""
SOLVED = episode(
    QUESTION,
    TO_MILL,
    MILL,
    "It was built in 1901, by Jan Kotek. When was he born?\nSearch[Jan Kotek]",
    """\
jan-kotek.md: Jan Kotek was an architect. He studied in Vienna. He built mills. He had a son. He \
died in 1931.
Similar: ostrava-mill.md""",
    "The year of birth may stand further down.\nLookup[born]",
    "(Result 1 / 1) He was born in Brno in 1862.",
    f"1862 is before 1901.\nFinish {ANSWER} yes",
)
FAILED = episode(
    QUESTION,
    TO_MILL,
    MILL,
    f"Its architect was Jan Kotek, in 1901.\nFinish {ANSWER} Jan Kotek, the architect of the mill",
)
LESSON = (
    "I answered with a name, but the question asks for yes or no, and I never learned when Jan "
    "Kotek was born. Next time I search for the architect, look up born in what I find, compare "
    "the two years, and answer with one word."
)

NAMES, ABOUT = r"(search|look ?up|finish)[ \t]*", r"(?=(.{0,500}))"
IN_BRACKETS = re.compile(rf"\b{NAMES}\[{ABOUT}", re.IGNORECASE)
BY_NAME = re.compile(
    rf"^[^\w\n]{{0,9}}(?:action[ \t]*\d{{0,4}}[^\w\n]{{1,9}})?{NAMES}[:(]{ABOUT}",
    re.IGNORECASE | re.MULTILINE,
)
WRAPPED = re.compile(r"(?<=[\w,;)])\n(?=[\w(\"'])")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
NO_ACTION = (
    "There is no action in this that can be read: write Search[query], Lookup[term] or "
    "Finish with the marker of an answer and your answer, on a line of its own."
)
NO_ANSWER = "No answer was given before the episode ended."


def document_tasks(library: Library, environment: Mapping[str, str]) -> Maker:
    """Build the maker of the environment; `environment` has MULL_TASKS and MULL_DOCUMENTS."""
    return partial(DocumentEnvironment, library, environment)


class DocumentEnvironment(Environment):
    """A question of a file, over the documents of a folder."""

    name = DOCUMENTS
    instructions = INSTRUCTIONS
    allowed_actions = ("Search[query]", "Lookup[term]", f"Finish {ANSWER} answer")
    planner_examples = (SOLVED,)
    reflector_examples = (ReflectorExample(context=FAILED, reflection=LESSON),)

    def __init__(self, library: Library, environment: Mapping[str, str], task: TaskRef) -> None:
        self._library = library
        self._variables = environment
        self._task = task
        self._docs = self._expected = self._term = ""
        self._page: list[str] | None = None

    def reset(self, seed: int) -> str:  # noqa: ARG002 - a question has no chance in it
        """Read the question. Raises TaskError."""
        if self._task.tasks is None or self._task.docs is None:
            raise TaskError("the environment documents needs a file of questions and a folder")
        path = task_file(self._task.tasks, self._variables)
        try:
            folder = Roots.from_environment(self._variables).resolve(self._task.docs)
        except RetrievalError as error:
            raise TaskError(str(error)) from None
        if path.is_relative_to(os.path.realpath(folder)):
            raise TaskError(
                "the file of questions is in the folder of documents, where a search would find it"
            )
        known = find_task(path, self._task.task, ("id", "_id"), ("question", "answer"))
        self._docs, self._expected, self._page = self._task.docs, known["answer"], None
        return known["question"].strip()

    async def step(self, action: str) -> StepResult:
        """Search, look up, or finish."""
        match read_action(action):
            case "search", query:
                return StepResult(observation=await self._search(query))
            case "lookup", term:
                return StepResult(observation=self._lookup(term))
            case "finish", answer:
                return StepResult(observation="The answer was taken.", done=True, answer=answer)
        return StepResult(observation=NO_ACTION)

    async def _search(self, query: str) -> str:
        """Open the document of this title, or the best one by its words."""
        task = RetrievalTask(prompt=query, docs=self._docs, passages=PASSAGES)
        self._page, self._term = None, ""
        found = await self._library.retrieve(task)
        titles = list(dict.fromkeys(passage.source for passage in found.passages))
        if not titles:
            return " ".join([f"Could not find {query[:TITLE]}.", *found.warnings])
        same = (one for one in titles if words(PurePath(one).stem) == words(query))
        title = next(same, titles[0])
        text = await self._library.read(self._docs, title)
        self._page = await asyncio.to_thread(sentences, title, text)
        said = f"{title}: {' '.join(self._page[:SENTENCES])}"
        similar = [one for one in titles if one != title][:SIMILAR]
        return f"{said}\nSimilar: {', '.join(similar)}" if similar else said

    def _lookup(self, term: str) -> str:
        """Show the next sentence with a term; the same term again goes on from there."""
        if self._page is None:
            return "There is no document to look it up in: Search[query] first."
        if term != self._term:
            self._term, self._at, wanted = term, 0, fold(term).casefold()
            self._found = [one for one in self._page if wanted in fold(one).casefold()]
        if self._at >= len(self._found):
            return "No more results."
        self._at += 1
        return f"(Result {self._at} / {len(self._found)}) {self._found[self._at - 1]}"

    def evaluate(self, answer: str | None) -> Evaluation:
        """Compare the answer with the expected one: F1 is the reward, an exact match correct."""
        if answer is None or not answer.strip():
            none = metrics("", self._expected)
            return Evaluation(reward=0, correct=False, feedback=NO_ANSWER, metrics=none)
        found = metrics(stated(answer), self._expected)
        correct = found["em"] == 1
        said = "The answer is right." if correct else f"The answer is wrong: F1 {found['f1']:.2f}."
        return Evaluation(reward=found["f1"], correct=correct, feedback=said, metrics=found)


def read_action(text: str) -> tuple[str, str] | None:
    """Return the last action that can be read, in lower case, and its argument."""
    for form in (IN_BRACKETS, BY_NAME):
        for found in reversed(list(form.finditer(text))):
            before, closed, after = found[2].rpartition("]" if form is IN_BRACKETS else ")")
            about = (before if closed else after).strip(" \t*`\"'“”")
            if about:
                return found[1].lower().replace(" ", ""), about
    return None


def stated(answer: str) -> str:
    """Return the answer itself: in the brackets of Finish, or on the first line."""
    found = read_action(answer)
    return found[1] if found and found[0] == "finish" else answer.strip().split("\n")[0]


def sentences(path: str, text: str) -> list[str]:
    """Split a document into sentences, without the places of its parts and the ends of lines."""
    place = re.compile(rf"^{re.escape(path)}(?:, page \d+)?:\d+(?:-\d+)?$\n?", re.MULTILINE)
    said = place.sub("", text)
    if not path.lower().endswith(TABLES):
        said = WRAPPED.sub(" ", said)
    return [" ".join(one.split()) for one in SENTENCE_END.split(said) if one.strip()]


def normalized(answer: str) -> str:
    """Write an answer as HotpotQA compares it: lower case, no punctuation, articles or gaps."""
    kept = "".join(one for one in answer.lower() if one not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def metrics(answer: str, expected: str) -> dict[str, float]:
    """Compute exact match, F1, precision and recall as HotpotQA's evaluation script does."""
    given, wanted = normalized(answer), normalized(expected)
    tokens, others = given.split(), wanted.split()
    common = (Counter(tokens) & Counter(others)).total()
    if given != wanted and {given, wanted} & {"yes", "no", "noanswer"}:
        common = 0
    precision, recall = (common / len(each) if common else 0.0 for each in (tokens, others))
    f1 = 2 * precision * recall / (precision + recall) if common else 0.0
    return {"em": float(given == wanted), "f1": f1, "precision": precision, "recall": recall}
