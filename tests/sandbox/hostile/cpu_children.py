# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os

for _ in range(3):
    os.fork()
while True:
    pass
