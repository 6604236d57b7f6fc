# HOSTILE TEST PROGRAM - run only inside a sandbox.
import signal, time

signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(30)
