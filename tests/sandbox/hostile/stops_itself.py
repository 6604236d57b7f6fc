# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, signal

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(4):
    os.fork()
os.kill(0, signal.SIGSTOP)
