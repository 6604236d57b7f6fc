# HOSTILE TEST PROGRAM - run only inside a sandbox.
import atexit


@atexit.register
def forever():
    while True:
        pass


print("done")
