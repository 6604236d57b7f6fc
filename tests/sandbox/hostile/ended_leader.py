# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, mmap, threading


def grow():
    kept = []
    for _ in range(24):
        kept.append(mmap.mmap(-1, 16 << 20))
        kept[-1].write(b"x" * (16 << 20))
    print("ESCAPED: 384 MB in a process whose first thread has ended", flush=True)


threading.Thread(target=grow).start()
ctypes.CDLL(None).syscall(60, 0)
