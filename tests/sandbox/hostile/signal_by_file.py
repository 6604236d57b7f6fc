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


import fcntl

ours, other = os.pipe()
attempt("owner", lambda: fcntl.fcntl(ours, 8, os.getppid()))
attempt("signal", lambda: fcntl.fcntl(ours, 10, 9))
attempt("ioctl", lambda: fcntl.ioctl(ours, 0x8901, os.getppid().to_bytes(4, "little")))
