# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
import time

for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(b"x" * (150 << 20))
        time.sleep(30)
        os._exit(0)
time.sleep(30)
