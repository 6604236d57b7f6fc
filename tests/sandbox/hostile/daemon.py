# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for each in (0, 1, 2):
            os.close(each)
        time.sleep(1000)
    os._exit(0)
os.wait()
print("parent done")
