# HOSTILE TEST PROGRAM - run only inside a sandbox.
import socket, urllib.request

for address in (("169.254.169.254", 80), ("10.0.0.1", 443), ("1.1.1.1", 53), ("255.255.255.255", 67)):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            with socket.socket(socket.AF_INET, kind) as made:
                made.settimeout(0.2)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                made.connect(address)
                made.send(b"x")
            print("ESCAPED:", address)
        except OSError as error:
            print("blocked:", address, error)
try:
    print("ESCAPED:", urllib.request.urlopen("http://localhost:17233", timeout=0.2).status)
except OSError as error:
    print("blocked:", error)
try:
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    print("ESCAPED:" if names else "blocked:", names)
except OSError as error:
    print("blocked:", error)
