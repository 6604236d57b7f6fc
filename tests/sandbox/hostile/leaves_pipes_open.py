# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, time

read, write = os.pipe()
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        os.dup2(1, 9)
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
print("done")
