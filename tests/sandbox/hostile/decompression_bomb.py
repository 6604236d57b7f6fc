# HOSTILE TEST PROGRAM - run only inside a sandbox.
import zlib

packer = zlib.compressobj(9, zlib.DEFLATED, -15)
piece = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
packed = piece * 1024 + packer.flush()
print(len(packed), flush=True)
print("ESCAPED:", len(zlib.decompress(packed, -15)))
