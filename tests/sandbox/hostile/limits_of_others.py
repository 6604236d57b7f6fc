# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
from attempts import attempt
import resource

for pid in {1, os.getppid()} - {0}:
    attempt(f"limit {pid}", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))
    attempt(f"priority {pid}", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attempt(f"cores {pid}", lambda: os.sched_setaffinity(pid, {0}))
attempt("priority of all", lambda: os.setpriority(os.PRIO_USER, 0, 19))
