# HOSTILE TEST PROGRAM - run only inside a sandbox.
size = 0
try:
    with open("huge", "wb", buffering=0) as file:
        while size < 1 << 30:
            size += file.write(b"x" * (1 << 20))
    print("ESCAPED:", size)
except OSError as error:
    print("blocked at", size >> 20, error)
