# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os

root = os.getcwd()
for name in (b"\xff\xfe", "caf\u00e9\u202e".encode(), b"a\nb", b"-rf", b" "):
    open(os.path.join(root.encode(), name), "w").close()
os.mkfifo("fifo")
os.symlink("/", "root")
os.symlink("loop", "loop")
for _ in range(600):
    os.mkdir("deep" * 10)
    os.chdir("deep" * 10)
os.chdir(root)
os.mkdir("shut")
open("shut/file", "w").close()
os.chmod("shut/file", 0)
os.chmod("shut", 0)
try:
    os.chmod(root, 0)
except OSError as error:
    print("blocked", error)
print("left")
