# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
from attempts import attempt

attempt("setuid", lambda: os.setresuid(0, 0, 0) or (os.getuid() == 0 and open("/etc/shadow").read()) or 1 / 0)
attempt("setgid", lambda: os.setgroups([42]) or open("/etc/shadow").read())
attempt("su", lambda: os.open("/bin/su", os.O_WRONLY))
