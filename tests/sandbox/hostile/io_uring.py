# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ctypes
from attempts import attempt, call

attempt("io_uring_setup", lambda: call(425, 8, ctypes.create_string_buffer(120)))
