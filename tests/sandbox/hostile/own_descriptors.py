# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, os, threading


def fill():
    size = 0
    try:
        if ctypes.CDLL(None).close_range(5000, 5001, 2) == 0:
            print("descriptors of a thread alone")
        for _ in range(40):
            file = os.open("gone", os.O_CREAT | os.O_RDWR)
            os.unlink("gone")
            for _ in range(16):
                size += os.write(file, b"x" * (1 << 20))
        print("ESCAPED:", size)
    except OSError as error:
        print("blocked at", size >> 20, error)


thread = threading.Thread(target=fill)
thread.start()
thread.join()
