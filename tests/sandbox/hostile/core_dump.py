# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
import resource

try:
    resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
    print("ESCAPED:core limit")
except (OSError, ValueError) as error:
    print("blocked", error, flush=True)
os.abort()
