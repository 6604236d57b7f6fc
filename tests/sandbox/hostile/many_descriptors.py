# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
import select

kept = []
try:
    while len(kept) < 100_000:
        kept += [*os.pipe(), select.epoll()]
    print("ESCAPED:", len(kept))
except OSError as error:
    print("blocked at", len(kept), error)
