"""The Landlock backend's last act in the program's own process, before the program begins."""

from __future__ import annotations

import os

from activities.sandbox.inside.landlock import no_new_privileges, restrict
from activities.sandbox.inside.privileges import drop_capabilities, keep_reading, load_filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# In a filter, and replaced by the program's own pid; activities/sandbox/confinement/seccomp.py.
_OWN_PID = (0x7FFF_FFF1).to_bytes(4, "little")


def confine(settings: dict[str, Any]) -> None:
    """Give up all privileges but what `reads_all` names, and be bound by rules and a filter.

    Of the settings: `reads_all`, whether files are read whatever their permissions; `rules`, what
    is allowed beneath each path; `filter`, an array of struct sock_filter.
    """
    keep_reading() if settings["reads_all"] else drop_capabilities()
    no_new_privileges()
    restrict(settings["rules"])
    own = os.getpid().to_bytes(4, "little")
    load_filter(settings["filter"].replace(_OWN_PID, own))
