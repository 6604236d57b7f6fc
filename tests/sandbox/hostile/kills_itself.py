# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, signal

os.kill(os.getpid(), signal.SIGKILL)
