"""What came of a scenario in two versions, compared."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.differential.model import Call, steady
from bench.differential.scenarios import MARK

# By the loop, which fields only the newer version has, on purpose: patterns of whole paths.
ADDED = {
    "reflect": r"max_revisions",
    "agent": r"(?:drafts\[\d+\]|draft)\.finish_reason",
    "train": r"(?:trained\[\d+\]\.result\.)?(?:model|\w+\.by_task\..*)",
    "batch": r"done|pages|pages_accepted",
}
# What `review --json` of the earlier version calls otherwise than its result does.
RENAMED = {"leader": "final_answer", "confidence": "consensus_confidence"}
# Differs from run to run.
VOLATILE = {
    *("at", "timestamp", "seconds", "wall_seconds", "cpu_seconds", "peak_memory_bytes", "run_id"),
    *("remaining_s", "waited_s"),
    # Of a tool call that waits for a person: it is of the run, too.
    "digest",
}
# Lists in the order in which parts of a run ended that went on side by side.
UNORDERED = {"gained", "warnings"}
# Differs where calls were lost with a worker.
AFTER_A_KILL = {"attempts", "retried", "cancelled"}
# Exit codes of a command that was given up, and of one that found no server or worker: two of them
# prove nothing.
NO_END = {-9, 3}
EMPTY: tuple[object, ...] = (None, [], {}, 0, "")
SEED = re.compile(r', "seed": \d+')


class Ended(NamedTuple):
    """A command that has ended: what it printed as JSON, and what it said beside that."""

    words: Sequence[str]
    code: int
    document: Any
    said: str = ""


@dataclass
class Outcome:
    """What came of a scenario in one version."""

    commands: list[Ended] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    trained: list[dict[str, Any]] = field(default_factory=list)
    killed: bool = False


class Comparison(NamedTuple):
    """What is different, and what only one version has, but empty."""

    differences: list[str]
    notes: set[str]


def compare(
    base: Outcome,
    new: Outcome,
    *,
    loop: str = "",
    killed: bool = False,
    asked: bool = True,
    ordered: bool = True,
) -> Comparison:
    """Compare what came of a scenario in two versions.

    With `asked` its calls are compared too, and if `ordered` their order.
    """
    added = re.compile(ADDED.get(loop, "(?!)"))
    found = Comparison([], set())
    if asked:
        found.differences.extend(
            compare_calls(base.calls, new.calls, killed=killed, ordered=ordered)
        )
    if [one.words for one in base.commands] != [one.words for one in new.commands]:
        given = [[" ".join(one.words[:3]) for one in side.commands] for side in (base, new)]
        found.differences.append(f"commands: {given[0]}, now {given[1]}")
    for one, other in zip(base.commands, new.commands, strict=False):
        about = " ".join(one.words[:2])
        if NO_END & {one.code, other.code}:
            found.differences.append(f"{about}: no end, exit codes {one.code} and {other.code}")
        elif one.code != other.code:
            said = other.said.strip().rpartition("\n")[2]
            found.differences.append(f"{about}: exit code {one.code}, now {other.code} ({said})")
        compare_documents(one.document, other.document, found, added, killed=killed)
    kept = [{"trained": sorted(side.trained, key=_named)} for side in (base, new)]
    compare_documents(kept[0], kept[1], found, added, killed=killed)
    return found


def _named(asked: dict[str, Any]) -> str:
    """Name what a training asked its worker for; a result, of which there is one, by that alone."""
    kind = str(asked["activity"])
    return kind if "result" in kind else json.dumps(asked, sort_keys=True)


def compare_documents(
    base: Any, new: Any, found: Comparison, added: re.Pattern[str], *, killed: bool = False
) -> None:
    """Compare two JSON documents value by value, and add to what was found."""
    left_out = VOLATILE | (AFTER_A_KILL if killed else set())
    before, after = dict(leaves(base, left_out)), dict(leaves(new, left_out))
    for path, renamed in RENAMED.items():
        if path in before and path not in after:
            before[renamed] = before.pop(path)
    for path in [*before, *(path for path in after if path not in before)]:
        if path in before and path in after:
            if before[path] != after[path]:
                said = _unlike(*(json.dumps(side[path]) for side in (before, after)))
                found.differences.append(f"{path}: {said}")
            continue
        value = before[path] if path in before else after[path]
        where = "gone" if path in before else "new"
        if value in EMPTY:
            found.notes.add(f"{re.sub(r'[0-9]+', 'N', path)} is {where}: {json.dumps(value)}")
        elif path in before or not added.fullmatch(path):
            found.differences.append(f"{path} is {where}: {json.dumps(value)[:200]}")


def leaves(value: Any, left_out: set[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value of a document that contains no other, with its path."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            if not left_out.intersection(name.split(".")):
                inner = sorted(part, key=str) if name in UNORDERED else part
                yield from leaves(inner, left_out, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for place, part in enumerate(value):
            yield from leaves(part, left_out, f"{path}[{place}]")
    elif isinstance(value, float):
        # A sum in another order differs in its last digits.
        yield path, float(f"{value:.9g}")
    else:
        yield path, steady(value) if isinstance(value, str) else value


class Asked(NamedTuple):
    """A call: its body, with a number among those that are equal, and when it was open.

    `kind` is the body without its seed, as samples have it in common: a worker may send those of
    one wave one after the other, in any order. `part` says which part of the run it is of.
    """

    key: tuple[str, int]
    kind: str
    part: str
    opened: float
    closed: float


def compare_calls(
    base: Sequence[Call], new: Sequence[Call], *, killed: bool, ordered: bool
) -> list[str]:
    """Say which call is missing, or more, or comes before another that it came after."""
    before, after = _asked(base, killed=killed), _asked(new, killed=killed)
    gone = [one for one in before.values() if one.key not in after]
    more = [one for one in after.values() if one.key not in before]
    if gone or more:
        counted = f"calls: {len(before)}, now {len(after)}"
        if gone and more:
            return [f"{counted}; the first that differs: {_unlike(gone[0].key[0], more[0].key[0])}"]
        which, one = ("gone", gone[0]) if gone else ("new", more[0])
        return [f"{counted}; {which} is {_told(one.key[0])}"]
    for one in before.values() if ordered else ():
        for other in before.values():
            if one.kind == other.kind or one.part != other.part or one.closed > other.opened:
                continue
            if after[other.key].closed <= after[one.key].opened:
                return [f"calls: {_told(other.key[0])} now comes before {_told(one.key[0])}"]
    return []


def _asked(calls: Sequence[Call], *, killed: bool) -> dict[tuple[str, int], Asked]:
    """Name each call by its body, and number those with the same one; or join them, if killed."""
    found: dict[tuple[str, int], Asked] = {}
    for call in calls:
        body = steady(json.dumps(call.body, sort_keys=True, ensure_ascii=False))
        closed, number = call.closed or float("inf"), 0
        while not killed and (body, number) in found:
            number += 1
        first = found.get((body, number))
        opened = first.opened if first else call.opened
        kind, part = SEED.sub("", body), "".join(MARK.findall(body)[0])
        found[body, number] = Asked((body, number), kind, part, opened, closed)
    return found


def _told(body: str) -> str:
    """Tell a call by the end of its last message."""
    messages = json.loads(body)["messages"]
    return json.dumps(str(messages[-1].get("content"))[-160:], ensure_ascii=False)


def _unlike(base: str, new: str) -> str:
    """Show where two texts begin to differ."""
    pairs = enumerate(zip(base, new, strict=False))
    at = next((place for place, (one, other) in pairs if one != other), min(len(base), len(new)))
    shown = [text[max(0, at - 60) : at + 100] for text in (base, new)]
    return f"…{shown[0]}… is now …{shown[1]}…"
