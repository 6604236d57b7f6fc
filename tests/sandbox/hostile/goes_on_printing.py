# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, sys

if os.fork() == 0:
    os.setsid()
    while True:
        os.write(1, b"more\n")
print("parent done")
