# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, socket, time

for _ in range(12):
    if os.fork() == 0:
        try:
            while True:
                for each in socket.socketpair():
                    each.setblocking(False)
                    try:
                        while True:
                            each.send(b"x" * 4096)
                    except BlockingIOError:
                        each.detach()
        except OSError:
            time.sleep(30)
time.sleep(30)
