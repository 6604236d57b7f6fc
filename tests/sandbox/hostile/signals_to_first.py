# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
sent = 0
for pid in {1, os.getppid()} - {0, os.getpid()}:
    handle = None
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        print("blocked: pidfd", error.strerror)
    for number in [each for each in range(1, 65) if each not in (32, 33)] * 5:
        for act in (
            lambda: os.kill(pid, number),
            lambda: libc.syscall(234, pid, pid, number) < 0 and 1 / 0,
            lambda: handle is not None and libc.syscall(424, handle, number, 0, 0) < 0 and 1 / 0,
        ):
            try:
                act()
                sent += 1
            except (OSError, ZeroDivisionError):
                pass
print("sent", sent)
print("still here")
