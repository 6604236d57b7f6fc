# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os

made = 0
try:
    for _ in range(500):
        if os.fork() == 0:
            os._exit(0)
        made += 1
except OSError as error:
    print("blocked at", made, error)
print("made", made)
