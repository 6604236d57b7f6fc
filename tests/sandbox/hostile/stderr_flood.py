# HOSTILE TEST PROGRAM - run only inside a sandbox.
import sys

while True:
    sys.stderr.write("x" * 65536)
