"""Moments and lengths of time in words."""

from datetime import UTC, datetime

SIZES = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def until_words(moment: datetime | None) -> str:
    """Say until when something lasts; nothing where it has no end."""
    return f"until {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else ""


def lasting_words(seconds: int) -> str:
    """Write a length of time in its two largest units: "2 h 5 min"."""
    parts, left = [], seconds
    for unit, size in SIZES:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2]) or "0 s"
