# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, os, signal

libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 65))
made = 0
while made < 5_000 and libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0:
    made += 1
queued = 0
while queued < 5_000 and libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(1)) == 0:
    queued += 1
print("timers", made, "signals", queued)
