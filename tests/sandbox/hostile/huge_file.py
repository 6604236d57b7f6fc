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


size = 0
try:
    with open("huge", "wb", buffering=0) as file:
        while size < 1 << 30:
            size += file.write(b"x" * (1 << 20))
    print("ESCAPED:", size)
except OSError as error:
    print("blocked at", size >> 20, error)
