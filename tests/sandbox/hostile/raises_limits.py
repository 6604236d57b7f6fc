# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, resource

for name in ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "MSGQUEUE", "NOFILE", "NPROC"):
    kind = getattr(resource, f"RLIMIT_{name}")
    if resource.getrlimit(kind)[1] == -1:
        print("ESCAPED: no limit of", name)
    for limits in ((-1, -1), (1 << 40, 1 << 40)):
        try:
            resource.setrlimit(kind, limits)
            print("ESCAPED: raised", name)
        except (OSError, ValueError):
            pass
try:
    os.nice(-5)
    print("ESCAPED: nice")
except OSError:
    pass
