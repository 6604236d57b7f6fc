# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os

made = 0
try:
    while made < 1_000_000:
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
        os.symlink("x" * 4000, "s")
        made += 2
    print("ESCAPED:", made)
except OSError as error:
    print("blocked at", made, error)
