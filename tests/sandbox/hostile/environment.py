# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os, sys

for name, value in os.environ.items():
    if "CANARY" in name + value:
        print(f"ESCAPED:environment:{name}")
if any("CANARY" in each for each in sys.orig_argv):
    print("ESCAPED:arguments")
print(sorted(os.environ))
