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

kept = []
size = 0
try:
    while size < 1 << 30:
        ours, other = os.pipe()
        kept += [ours, other]
        os.set_blocking(other, False)
        try:
            fcntl.fcntl(other, 1031, 1 << 20)
        except OSError:
            pass
        size += os.write(other, b"x" * (1 << 20))
    print("ESCAPED:", size)
except OSError as error:
    print("blocked at", size >> 20, error)
