"""What was found, in the words of the port."""

from collections.abc import Mapping, Sequence

from activities.retrieval.folder import Indexed
from activities.retrieval.index.manifest import Entry
from activities.retrieval.index.searching import Hit
from activities.retrieval.index.store import Snapshot
from activities.retrieval.index.walk import Walked
from activities.retrieval.roots import shown
from reflection.multipath.state import Passage
from reflection.text import terminal_safe

BUSY = "another worker is reading this folder: what it has read so far was searched"
NAMED = 3
NAME_COLUMNS = 80


def passage(snapshot: Snapshot, hit: Hit) -> Passage:
    """Read a passage that was found. Raises DamagedError."""
    stored = snapshot.passage(hit.address)
    return Passage(
        id=stored.id,
        source=stored.source,
        first_line=stored.part.first_line,
        last_line=stored.part.last_line,
        score=hit.score,
        text=stored.part.text,
        page=stored.part.page,
    )


def warnings(found: Indexed, docs: str) -> tuple[str, ...]:
    """Say what a search could not see: files that are being read yet, or any file at all."""
    if not found.fresh:
        return (BUSY,)
    read = any(not each.reason for each in found.snapshot.manifest.values())
    return () if read else (f"the folder {shown(docs)} has no file that can be searched",)


def left_out(walked: Walked, manifest: Mapping[str, Entry]) -> tuple[str, ...]:
    """Say for each reason how many files, or pages, were left out, with the names of three."""
    reasons = {reason: list(paths) for reason, paths in walked.left_out.items()}
    for path, entry in manifest.items():
        if entry.reason:
            reasons.setdefault(entry.reason, []).append(path)
        for reason, part in entry.parts:
            reasons.setdefault(reason, []).append(f"{part} of {path}")
    return tuple(_line(reason, sorted(reasons[reason])) for reason in sorted(reasons))


def _line(reason: str, paths: Sequence[str]) -> str:
    names = ", ".join(terminal_safe(path, NAME_COLUMNS) for path in paths[:NAMED])
    more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
    return f"{reason} ({len(paths):,}): {names}{more}"
