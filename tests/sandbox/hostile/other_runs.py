# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
from attempts import attempt

here = os.path.realpath(os.getcwd())
while here != "/":
    above, name = os.path.split(here)
    attempt(f"list {above}", lambda: [
        each for each in os.listdir(above)
        if each != name and os.path.isdir(os.path.join(above, each, "box"))
    ][0])
    attempt(f"open {above}", lambda: open(os.path.join(above, "..", "secret")))
    here = above
