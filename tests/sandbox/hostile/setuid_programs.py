# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, shutil, stat, subprocess

found = [
    os.path.join(folder, name)
    for folder in ("/usr/bin", "/usr/sbin", "/bin", "/usr/lib/openssh")
    if os.access(folder, os.R_OK)
    for name in os.listdir(folder)
    if os.path.exists(os.path.join(folder, name))
    and os.stat(os.path.join(folder, name)).st_mode & (stat.S_ISUID | stat.S_ISGID)
]
print(len(found))
for command in (["su", "-c", "id -u"], ["mount", "-t", "tmpfs", "none", "/mnt"], ["newgrp"], ["sudo", "-n", "id", "-u"], ["unshare", "-Ur", "id", "-u"]):
    try:
        ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        print("ESCAPED:" if ran.returncode == 0 else "blocked:", command[0], ran.stdout.strip())
    except OSError as error:
        print("blocked:", command[0], error.strerror)
shutil.copy("/usr/bin/id", "id")
try:
    os.chmod("id", 0o6755)
except OSError as error:
    print("blocked: chmod", error.strerror)
try:
    ran = subprocess.run(["./id", "-u"], capture_output=True, text=True)
    print("blocked:" if int(ran.stdout) == os.getuid() else "ESCAPED:", ran.stdout)
except OSError as error:
    print("blocked:", error.strerror)
