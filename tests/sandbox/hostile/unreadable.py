# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, os

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
kept = []
size = 0
try:
    for _ in range(40):
        kept.append(os.open("gone", os.O_CREAT | os.O_RDWR))
        os.unlink("gone")
        for _ in range(16):
            size += os.write(kept[-1], b"x" * (1 << 20))
    print("ESCAPED:", size)
except OSError as error:
    print("blocked at", size >> 20, error)
