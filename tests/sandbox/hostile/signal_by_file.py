# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
from attempts import attempt
import fcntl

ours, other = os.pipe()
attempt("owner", lambda: fcntl.fcntl(ours, 8, os.getppid()))
attempt("signal", lambda: fcntl.fcntl(ours, 10, 9))
attempt("ioctl", lambda: fcntl.ioctl(ours, 0x8901, os.getppid().to_bytes(4, "little")))
