# HOSTILE TEST PROGRAM - run only inside a sandbox.
import sys

sys.exit("all tests passed")
