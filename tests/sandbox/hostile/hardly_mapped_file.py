# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
size = 0
try:
    for _ in range(40):
        file = os.open("gone", os.O_CREAT | os.O_RDWR)
        for _ in range(16):
            size += os.write(file, b"x" * (1 << 20))
        libc.mmap(None, 4096, 1, 1, file, 0)
        os.unlink("gone")
        os.close(file)
    print("ESCAPED:", size)
except OSError as error:
    print("blocked at", size >> 20, error)
