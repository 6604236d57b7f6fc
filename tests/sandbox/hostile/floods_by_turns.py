# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os

while True:
    os.write(1, b"x")
    os.write(2, b"y" * 1000)
