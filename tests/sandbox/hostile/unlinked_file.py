# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os

kept = []
size = 0
try:
    while size < 1 << 30:
        file = open("gone", "wb", buffering=0)
        os.unlink("gone")
        kept.append(file)
        for _ in range(8):
            size += file.write(b"x" * (1 << 20))
    print("ESCAPED:", size)
except OSError as error:
    print("blocked at", size >> 20, error)
