"""Giving up privileges for good: capabilities, and by a seccomp filter the system calls.

Standard library only: the sandbox's own Python runs this before the program. The constants are
those of linux/prctl.h and linux/capability.h.
"""

import ctypes
import os
import struct

_KEEP_CAPABILITIES, _AMBIENT, _RAISE, _SECCOMP, _FILTER_MODE, _SUBREAPER = 8, 47, 2, 22, 2, 36
_CAPABILITY_VERSION = 0x2008_0522
_READ_SEARCH = 2

_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_SUBREAPER, 1)


def keep_capabilities() -> None:
    """Let root's capabilities stay permitted in who becomes another user, until others are set."""
    _prctl(_KEEP_CAPABILITIES, 1)


def keep_reading() -> None:
    """Keep, of all capabilities, the one that passes permissions to read files and folders.

    It is for a Python that lies in a folder of root's own. What is read by it is for Landlock to
    bound. Programs that are executed have it too.
    """
    _set_capabilities(1 << _READ_SEARCH)
    _prctl(_AMBIENT, _RAISE, _READ_SEARCH)


def drop_capabilities() -> None:
    """Have none, for good once nothing that is executed gains any."""
    _set_capabilities(0)


def load_filter(program: bytes) -> None:
    """Answer system calls as a seccomp filter says, an array of struct sock_filter, from now on."""
    loaded = _Filter(len(program) // 8, program)
    _check(_libc.prctl(_SECCOMP, _FILTER_MODE, ctypes.byref(loaded)), "seccomp")


def _set_capabilities(bits: int) -> None:
    header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, struct.pack("<6I", bits, bits, bits, 0, 0, 0)), "capset")


def _prctl(option: int, *arguments: int) -> None:
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(option, *padded), "prctl")


def _check(returned: int, what: str) -> None:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
