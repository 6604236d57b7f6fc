# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, act):
    try:
        got = act()
    except BaseException as error:
        print(f"blocked:{name}:{type(error).__name__}", flush=True)
    else:
        print(f"ESCAPED:{name}:{str(got)[:80]!r}", flush=True)


def call(number, *arguments):
    got = libc.syscall(number, *arguments)
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got


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
