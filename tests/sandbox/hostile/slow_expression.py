# HOSTILE TEST PROGRAM - run only inside a sandbox.
import re

re.match(r"(a+)+$", "a" * 60 + "b")
