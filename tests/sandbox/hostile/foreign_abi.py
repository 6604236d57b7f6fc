# HOSTILE TEST PROGRAM - run only inside a sandbox.
from attempts import attempt, call

attempt("x32", lambda: call(0x40000000 | 39))
