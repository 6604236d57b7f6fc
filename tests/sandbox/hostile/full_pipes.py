# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
import fcntl

kept = []
size = 0
try:
    while size < 1 << 30:
        ours, other = os.pipe()
        kept += [ours, other]
        os.set_blocking(other, False)
        try:
            fcntl.fcntl(other, 1031, 1 << 20)
        except OSError:
            pass
        size += os.write(other, b"x" * (1 << 20))
    print("ESCAPED:", size)
except OSError as error:
    print("blocked at", size >> 20, error)
