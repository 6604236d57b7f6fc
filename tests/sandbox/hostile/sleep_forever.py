# HOSTILE TEST PROGRAM - run only inside a sandbox.
import time

time.sleep(1000)
