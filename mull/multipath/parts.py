"""What the agent's state S = (P, D, M, T_m, K, E, R_n) is made of: `mull.multipath.loop` has S.

Source: the technical report "A Reflective Multi-Path Agentic System" (version 5.0), section 2.1.
"""

from typing import Literal

from mull.request import Record

Mode = Literal["research", "code"]
Node = Literal[
    "retrieve", "route", "generate_report", "reflect_on_report", "generate_code", "test_code"
]
Aspect = Literal["citation", "consistency", "clarity", "completeness", "demarcation", "person"]


class Passage(Record):
    """A member of D: a part of a document, lines `first_line` to `last_line` inclusive.

    `score` is the engine's own, for ordering alone. `source` is the file's path in its folder.
    `page` counts from 1, for documents that have pages; lines are then those of the page.
    """

    id: str
    source: str
    first_line: int
    last_line: int
    score: float
    text: str
    page: int | None = None

    @property
    def place(self) -> str:
        """Where it stands: its file, page and lines."""
        page = f", page {self.page}" if self.page is not None else ""
        last = f"-{self.last_line}" if self.last_line != self.first_line else ""
        return f"{self.source}{page}:{self.first_line}{last}"


class Critique(Record):
    """A member of K, which drives a refinement: what to change, and in which sentence.

    `sentence` is quoted from the report, None if something is missing there. `cited` is the number
    of the source concerned, from 1. `author` is the person who wrote the critique, if any.
    """

    aspect: Aspect
    advice: str
    sentence: str | None = None
    cited: int | None = None
    author: str | None = None

    @property
    def words(self) -> str:
        """The critique on one line: its aspect or the person, the sentence, the advice."""
        cited = "" if self.cited is None else f"[{self.cited}]"
        quoted = f'at "{self.sentence}"' if self.sentence else ""
        about = ", ".join(filter(None, (self.author or self.aspect, cited, quoted)))
        return f"{about}: {self.advice}"
