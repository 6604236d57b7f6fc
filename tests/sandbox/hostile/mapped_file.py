# HOSTILE TEST PROGRAM - run only inside a sandbox.
import os
import mmap

kept = []
size = 0
try:
    while size < 1 << 30:
        with open("mapped", "w+b") as file:
            file.truncate(32 << 20)
            os.unlink("mapped")
            kept.append(mmap.mmap(file.fileno(), 32 << 20))
            # The mapping has a descriptor of its own.
            os.close(file.fileno() + 1)
        kept[-1].write(b"x" * (32 << 20))
        size += 32 << 20
    print("ESCAPED:", size)
except (OSError, ValueError) as error:
    print("blocked at", size >> 20, error)
