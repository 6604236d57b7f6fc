# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, sys
from attempts import attempt

for path in (
    "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/oom_score_adj",
    "/proc/self/attr/current", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/uevent_helper",
    "/sys/power/state", "/etc/passwd", "/etc/ld.so.preload", "/etc/resolv.conf", "/usr/x",
    "/dev/x", "/x", "/lib/x", "/proc/x",
):
    attempt(f"write {path}", lambda: open(path, "ab"))
for path in ("/proc/kcore", "/proc/kallsyms", "/proc/1/cmdline", "/dev/kmsg", "/proc/mounts"):
    attempt(f"read {path}", lambda: open(path, "rb").read(10))
for path in ("/root/.ssh", "/home", "/proc/1/task", "/sys/class/net", "/var/log", "/srv", "/boot", "/sys/fs/cgroup"):
    attempt(f"list {path}", lambda: os.listdir(path)[0])
