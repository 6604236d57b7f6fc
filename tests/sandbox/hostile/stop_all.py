# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
import signal

for pid in (os.getppid(), 1, -1):
    try:
        os.kill(pid, signal.SIGSTOP)
    except OSError as error:
        print("blocked", pid, error)
os.kill(os.getpid(), signal.SIGKILL)
