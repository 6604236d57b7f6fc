"""The scenarios of `bench.differential`, drawn by a seed: what is typed, and what is done to a run.

Each has its name in what is asked, such as `case ask-3`, by which the endpoint knows its calls.
Parts of a run that go on side by side, such as the lines of a batch, have a number of their own
behind it.
"""

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

# Each scenario has models of its own, since a worker paces all calls of one name together; those
# that are tuned by somebody have a price by any name.
MODEL = "openai/ft:gpt-4o-mini-2024-07-18:mull::{name}"
OTHER_MODEL = "openai/ft:gpt-4o-2024-08-06:mull::{name}"
TUNED = "openai/ft:gpt-4.1-mini-2025-04-14:mull::{name}"
MARK = re.compile(r"case ([a-z]+-\d+)((?:\.\d+)?)")
LINES = 3

# Of each option the values that are drawn from; an empty one is a flag.
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "ask": {
        "--answers": ("number", "number", "text", "exact", "choice", "llm"),
        "--rule": (
            *("combined", "confidence_only", "entropy_only", "off", "predictive", "beta"),
            *("ahead_by", "curtail", "fixed"),
        ),
        "--preset": ("thrifty", "thorough"),
        "--max-responses": ("3", "6", "8", "12"),
        "--min-responses": ("1", "2", "3"),
        "--quorum": ("2", "4"),
        "--confidence-threshold": ("0.5", "0.7", "0.9"),
        "--entropy-threshold": ("0.2", "0.6"),
        "--entropy-weight": ("0.1", "0.6"),
        "--epsilon": ("0.01", "0.2"),
        "--beta-threshold": ("0.8", "0.99"),
        "--ahead-by": ("2", "4"),
        "--futility": ("0.05", "0.3"),
        "--max-concurrency": ("1", "2", "4"),
        "--budget-tokens": ("300", "1200"),
        "--budget-usd": ("0.0001", "0.001"),
        "--require-confidence": ("0.6", "0.9"),
        "--review-when": ("high",),
        "--temperature": ("0", "1.2"),
        "--context": ("context.txt",),
        "--accept-any": ("",),
    },
    "reflect": {
        "--criteria": ("cost_sensitive", "research", "documentation", "support_reply"),
        "--criterion": ("tone*2=Courteous. --criterion facts=True.",),
        "--judge": (MODEL, f"{OTHER_MODEL} --judge {MODEL}"),
        "--panel": ("mean", "median"),
        "--score-threshold": ("0.5", "0.8", "0.95"),
        "--max-revisions": ("0", "2", "3", "3"),
        "--min-gain": ("0", "0.1"),
        "--complexity": ("0.1",),
        "--no-reflect": ("",),
        "--no-guardrails": ("",),
        "--format": ("json", "markdown", "python"),
        "--source": ("context.txt --source documents/pump.md",),
        "--draft": ("draft.txt",),
        "--budget-tokens": ("900", "4000"),
        "--budget-usd": ("0.001",),
        "--review-below": ("0.6", "0.95"),
        "--require-score": ("0.6",),
        "--synthesis-follows": ("",),
        "--system": ("context.txt",),
    },
    "agent": {
        "--mode": ("research", "code", "code"),
        "--docs": ("documents", "documents"),
        "--passages": ("1", "4"),
        "--max-revisions": ("1", "2", "4"),
        "--no-creative": ("",),
        "--judge": (OTHER_MODEL,),
        "--entry": ("double",),
        "--tests": ("test_double.py",),
        "--require-closed": ("",),
        "--accept-any": ("",),
        "--review-open": ("",),
        "--budget-tokens": ("1500", "6000"),
        "--budget-usd": ("0.001",),
    },
    "turn": {
        "--think-level": ("low", "medium", "high"),
        "--tools": ("calculate", "python,calculate", "documents"),
        "--docs": ("documents",),
        "--reflect-every": ("1", "2"),
        "--no-reflect-on-tool-error": ("",),
        "--reflect-on-uncertainty": ("",),
        "--reflection-feeds-back": ("",),
        "--max-reflections": ("1", "2"),
        "--max-steps": ("1", "3"),
        "--max-tool-calls": ("0", "1", "3"),
        "--max-context-tokens": ("1500",),
        "--budget-tokens": ("700", "3000"),
        "--approve": ("ask.json", "ask.json", "deny.json"),
        "--stream": ("",),
        "--system": ("context.txt",),
    },
    "reflexion": {
        "--strategy": ("none", "last_episode", "reflexion", "last_episode_and_reflexion"),
        "--episode-limit": ("1", "2", "4"),
        "--step-limit": ("1", "2", "4"),
        "--plateau-episodes": ("0", "1"),
        "--judge": (OTHER_MODEL,),
        "--reflector": (OTHER_MODEL,),
        "--memory": ("{name}",),
        "--scope": ("task", "environment"),
        "--budget-tokens": ("4000", "12000"),
        "--require-cases": ("",),
        "--accept-any": ("",),
    },
    "retroformer": {
        "--reflection-tries": ("1", "2", "4"),
        "--reflection-temperature": ("0.5",),
        "--strategy": ("reflexion", "last_episode_and_reflexion"),
        "--episode-limit": ("2", "3"),
        "--step-limit": ("2", "4"),
        "--reflector": (OTHER_MODEL,),
        "--budget-tokens": ("12000",),
    },
    "train": {
        "--method": ("rloo", "kto", "dpo"),
        "--pairing": ("ordered", "positive"),
        "--rollouts": ("1", "2"),
        "--held-out": ("0", "1"),
        "--tuned": (TUNED,),
        "--concurrency": ("2",),
        "--epochs": ("2",),
        "--learning-rate": ("0.001",),
        "--budget-tokens": ("20000",),
        "--accept-any": ("",),
    },
    "batch": {
        "--max-concurrency": ("2",),
        "--budget-tokens": ("2000", "9000"),
        "--budget-usd": ("0.001",),
        "--accept-any": ("",),
    },
}
# Those after which little happens, or that refuse others, and those that matter most.
RARE = {
    *("--no-reflect", "--synthesis-follows", "--complexity", "--criterion", "--entry", "--mode"),
    *("--budget-tokens", "--budget-usd", "--preset"),
}
OFTEN = {"--rule", "--answers", "--ahead-by", "--max-revisions", "--think-level", "--approve"}
REVIEWS = (
    ("--accept",), ("--revise", "Say which one."), ("--replace", "draft.txt"),
    ("--score", "0.9"),
)  # fmt: skip
AT_ONCE = {"ask": "--max-concurrency", "train": "--concurrency", "batch": "--max-concurrency"}
# What a person does while a call is open, by loop.
ACTS = {
    "ask": (("finish",), ("add", "7"), ("add", "8"), ("cancel",)),
    **dict.fromkeys(("reflect", "agent", "turn", "reflexion", "train"), (("finish",), ("cancel",))),
}  # fmt: skip
LOOPS = ("ask", "reflect", "agent", "turn", "reflexion", "train", "batch")

DOUBLE = 'def double(n):\n    """Return n twice, in case {}.\n    >>> double(3)\n    6\n    """\n'
FILES = {
    "context.txt": "The harbour has seven boats, and two of them are green.\n",
    "draft.txt": "There are seven boats in the harbour, of which two are green. The rest is blue.",
    "test_double.py": "from solution import double\n\ndef test_it():\n    assert double(4) == 8\n",
    "ask.json": '[{"tool": "*", "action": "ask"}]',
    "deny.json": '[{"tool": "calculate", "action": "deny", "why": "do it by hand"}]',
    "documents/pump.md": "# Heat pump\n\nA heat pump for the school costs 40,000 euros.\n",
    "documents/gas.md": "# Gas\n\nGas for the school costs 9,000 euros a year.\n",
    "documents/boats.md": "# Boats\n\nThe school's seven boats need no heating.\n",
}


@dataclass(frozen=True)
class Scenario:
    """What is typed, and what is done to the run, whose id is the scenario's name.

    `kill` and the number of `act` are calls of a model, from 1: the worker is killed, or the
    command given, while that call is open. `reviews` are given whenever the run waits.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    disturbed: bool = False
    kill: int = 0
    act: tuple[int, tuple[str, ...]] | None = None
    reviews: tuple[tuple[str, ...], ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether its calls have an order, which those of rollouts side by side have not."""
        return all(command[0] != "train" for command in self.commands)


def prepare(folder: Path, runs: int) -> None:
    """Write the files that commands are given."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    hidden = "def check(candidate):\n    assert candidate(5) == 10\n"
    for number in range(runs):
        for loop in ("reflexion", "train", "batch"):
            rows: list[dict[str, str]] = []
            for name in (f"{loop}-{number}.{line}" for line in range(LINES)):
                task = {"task_id": name, "prompt": DOUBLE.format(name), "entry_point": "double"}
                asked = {"question": f"How many boats are in case {name}?"}
                rows.append(asked if loop == "batch" else {**task, "test": hidden})
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{loop}-{number}.jsonl").write_text(lines)


def draw(loop: str, number: int, seed: int) -> Scenario:
    """Draw a scenario of a loop; every tenth has its worker killed, and is otherwise calm."""
    name = f"{loop}-{number}"
    chance = random.Random(f"{seed} {name}")
    retroformer = loop == "train" and number // 2 % 2 == 1
    options = _options(chance, "retroformer" if retroformer else loop)
    kill = chance.randint(1, 4) if number % 10 == 9 else 0
    act = None
    if not kill and chance.random() < 0.2 and loop in ACTS:
        act = chance.randint(1, 4), chance.choice(ACTS[loop])
    disturbed = not kill and act is None and chance.random() < 0.5
    if disturbed:
        options += ["--max-attempts", "3"] if loop != "batch" else []
    cut = act is not None and act[1][0] != "add"
    if loop in ("train", "batch"):
        cut |= any("--budget" in word for word in options) or (loop == "train" and disturbed)
    if cut and loop in AT_ONCE and not retroformer:
        # Which part of the run is cut short, or fails, is chance where they go on side by side.
        options += [AT_ONCE[loop], "1"]
    reviews = tuple(chance.choice(REVIEWS) for _ in range(2))
    if loop == "turn":
        reviews = tuple(chance.choice((("--allow",), ("--deny",))) for _ in range(4))
    commands = [
        tuple(word.replace("{name}", name) for word in words)
        for words in _commands(loop, name, options, chance, retroformer=retroformer)
    ]
    return Scenario(name, tuple(commands), disturbed, kill, act, reviews)


def _options(chance: random.Random, loop: str) -> list[str]:
    """Draw about a third of the options, each with one of its values."""
    words: list[str] = []
    for option, values in CHOICES[loop].items():
        if chance.random() < (0.1 if option in RARE else 0.7 if option in OFTEN else 0.3):
            words += [option, *chance.choice(values).split()]
    return words


def _commands(
    loop: str, name: str, options: list[str], chance: random.Random, *, retroformer: bool
) -> list[list[str]]:
    model = ["--model", MODEL]
    plain = [*(model if loop != "batch" else []), *options, "--id", name, "--json"]
    task = ["--env", "code", "--tasks", f"{name}.jsonl"]
    one = [*task, "--task", f"{name}.0"]
    chosen = ["--reward-model", "first/reward_model", "--seed", "3"]
    models = ["--reflector", OTHER_MODEL, "--base-model", "base"]
    wanted = chance.choice(("Write the function double(n) that doubles", "Compare heating"))
    lines = ["batch", f"{name}.jsonl", "--command", "ask", "--yes"]
    each = ["--", *model, "--seed", "7", "--answers", "number", "--max-responses", "6"]
    each += ["--max-attempts", "3"]
    typed = {
        "ask": [f"How many boats are in case {name}?", "--seed", str(chance.randrange(900))],
        "reflect": [f"Explain how boats are counted in case {name}", "--min-complexity", "0"],
        # Time by the clock is the machine's, and must not run out.
        "agent": [f"{wanted}, in case {name}", "--wall-seconds", "60"],
        "turn": [f"Count the boats in case {name}.", "--budget-seconds", "3000"],
        "reflexion": one,
        "train": [*one, *chosen] if retroformer else [*task, *models],
    }
    if loop == "batch":
        return [[*lines, *plain, *each]]
    if loop == "turn" and chance.random() < 0.3:
        talk = ["--session", name, "--json"]
        # Calls that wait for a person are those of single turns.
        options = [word.replace("ask.json", "deny.json") for word in options]
        return [
            ["turn", *typed[loop], *model, *options, *talk],
            ["turn", f"And in case {name}, the green ones?", *talk],
        ]
    return [["retroformer" if retroformer else loop, *typed[loop], *plain]]
