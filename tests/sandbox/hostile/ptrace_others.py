# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, os
from attempts import attempt, call, libc

class Span(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def trace(request, pid):
    got = libc.ptrace(request, pid, 0, 0)
    if got < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return got


kept = ctypes.create_string_buffer(8)
span = Span(ctypes.addressof(kept), 8)
for pid in {1, os.getppid()} - {0}:
    attempt(f"attach {pid}", lambda: trace(16, pid))
    attempt(f"seize {pid}", lambda: trace(0x4206, pid))
    attempt(f"read {pid}", lambda: call(310, pid, ctypes.byref(span), 1, ctypes.byref(span), 1, 0))
    attempt(f"write {pid}", lambda: call(311, pid, ctypes.byref(span), 1, ctypes.byref(span), 1, 0))
    attempt(f"descriptor {pid}", lambda: call(438, os.pidfd_open(pid), 0, 0))
