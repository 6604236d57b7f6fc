# HOSTILE TEST PROGRAM - run only inside a sandbox.
from attempts import attempt
import socket

for family, kind, protocol in (
    (2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 768), (16, 3, 0), (16, 3, 15), (40, 1, 0),
    (38, 5, 0), (2, 1, 262), (2, 1, 132), (2, 5, 132), (1, 5, 0), (30, 5, 0), (29, 3, 1), (31, 3, 1), (44, 3, 0),
):
    attempt(f"socket {family} {kind} {protocol}", lambda: socket.socket(family, kind, protocol))
