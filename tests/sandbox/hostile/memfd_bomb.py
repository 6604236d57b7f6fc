# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os

kept = []
try:
    for _ in range(64):
        kept.append(os.memfd_create("x"))
        os.write(kept[-1], b"x" * (16 << 20))
    print("ESCAPED:1 GB of memfd")
except OSError as error:
    print("blocked:", len(kept), error)
