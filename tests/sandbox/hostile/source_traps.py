# coding: utf-8
# HOSTILE TEST PROGRAM - run only inside a sandbox.
import linecache, subprocess, sys

for text in (b"\xef\xbb\xbfprint(1)", b"# coding: rot13\nprint(1)", b"# coding: nope\n", b"\xff\xfe\n",
             b"print(1)\0", b"'" + b"x" * 1_000_000 + b"'", b"\n" * 1_000_000 + b"print(1)", b"\x1a\x0c"):
    with open("trap.py", "wb") as file:
        file.write(text)
    ran = subprocess.run([sys.executable, "trap.py"], capture_output=True)
    print(text[:20], ran.returncode)
