# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, sys

sys.stdout = open("kept", "w")
print("ESCAPED to a file")
sys.stderr = sys.__stderr__ = None
os.dup2(os.open("kept", os.O_WRONLY), 2)
