"""Shares from 0 to 1 as block characters."""

from collections.abc import Iterable

LEVELS = "▁▂▃▄▅▆▇█"


def level(share: float) -> str:
    """Draw a share, 0 to 1, as one block character."""
    return LEVELS[max(0, min(7, int(share * 8)))]


def sparkline(shares: Iterable[float]) -> str:
    """Draw shares, each 0 to 1, as one block character each."""
    return "".join(level(share) for share in shares)


def bar(share: float, columns: int) -> str:
    """Draw a share, 0 to 1, as a bar; what is above 0 gets one column at least."""
    full = max(round(share * columns), int(share > 0))
    return "▇" * full + "▁" * (columns - full)
