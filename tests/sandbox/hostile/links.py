# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os

open("one", "w").close()
made = 0
try:
    while made < 1_000_000:
        os.link("one", f"link{made}")
        made += 1
    print("ESCAPED:", made)
except OSError as error:
    print("blocked at", made, error)
