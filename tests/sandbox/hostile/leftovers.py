# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, act):
    try:
        got = act()
    except BaseException as error:
        print(f"blocked:{name}:{type(error).__name__}", flush=True)
    else:
        print(f"ESCAPED:{name}:{str(got)[:80]!r}", flush=True)


def call(number, *arguments):
    got = libc.syscall(number, *arguments)
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got


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
