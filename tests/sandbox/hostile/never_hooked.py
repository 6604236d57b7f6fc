# HOSTILE TEST PROGRAM - run only inside a sandbox.
import sys, time


def forever(*_):
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass


sys.excepthook = forever
raise KeyboardInterrupt
