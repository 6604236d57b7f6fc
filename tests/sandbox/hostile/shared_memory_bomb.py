# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
import mmap, time

kept = []
while True:
    kept.append(mmap.mmap(-1, 64 << 20))
    if os.fork() == 0:
        kept[-1].write(b"x" * (64 << 20))
        time.sleep(30)
        os._exit(0)
    time.sleep(0.02)
