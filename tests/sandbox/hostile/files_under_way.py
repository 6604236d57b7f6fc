# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, socket

ours, other = socket.socketpair()
size = 0
try:
    for _ in range(40):
        file = os.open("gone", os.O_CREAT | os.O_RDWR)
        os.unlink("gone")
        for _ in range(16):
            size += os.write(file, b"x" * (1 << 20))
        socket.send_fds(ours, [b"x"], [file])
        os.close(file)
    print("ESCAPED:", size)
except OSError as error:
    print("blocked at", size >> 20, error)
