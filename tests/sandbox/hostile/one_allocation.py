# HOSTILE TEST PROGRAM - run only inside a sandbox.
kept = bytearray(8 << 30)
