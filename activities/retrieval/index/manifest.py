"""What an index knows of each file, kept beside it."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from activities.retrieval.index.walk import Found, Signature

NEVER = Signature(-1, 0, 0)


class Entry(NamedTuple):
    """A file as it was read: `reason` says why it could not be, "" where it could.

    `parts` are what was left out of it, each a reason and which part it is.
    """

    signature: Signature
    digest: str
    reason: str = ""
    parts: tuple[tuple[str, str], ...] = ()


Manifest = dict[str, Entry]


def differs(files: Sequence[Found], manifest: Mapping[str, Entry]) -> bool:
    """Say whether any file is new, gone, or may have changed."""
    if len(files) != len(manifest):
        return True
    return any(is_news(found, manifest.get(found.path)) for found in files)


def is_news(found: Found, entry: Entry | None) -> bool:
    """Say whether a file must be looked at: it is new, or its signature is another."""
    return entry is None or entry.signature != found.signature


def write_manifest(manifest: Mapping[str, Entry], commit: int) -> bytes:
    """Write a manifest, and the commit that it is of, as JSON in ASCII, which holds any name."""
    rows = {
        path: [*each.signature, each.digest, each.reason, each.parts]
        for path, each in manifest.items()
    }
    return json.dumps({"commit": commit, "files": rows}, separators=(",", ":")).encode("ascii")


def read_manifest(written: bytes) -> tuple[Manifest, int]:
    """Read a manifest and its commit. Raises ValueError, or the like, for what is none."""
    content = json.loads(written)
    files = {
        path: Entry(
            Signature(size, modified, changed),
            digest,
            reason,
            tuple((why, of) for why, of in parts),
        )
        for path, (size, modified, changed, digest, reason, parts) in content["files"].items()
    }
    return files, content["commit"]
