# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
from attempts import attempt

attempt("sparse", lambda: os.truncate(os.open("sparse", os.O_CREAT | os.O_RDWR), 1 << 40))
