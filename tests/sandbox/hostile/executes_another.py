# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, sys

os.execv(sys.executable, [sys.executable, "-c", "print('done')"])
