# HOSTILE TEST PROGRAM - run only inside a sandbox.
import sys

while True:
    sys.stdout.write("\u20ac" * 1000)
