# HOSTILE TEST PROGRAM - run only inside a sandbox.
from attempts import attempt
import socket


def send():
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return ours.sendto(b"x", "\0sbx_canary_datagram")


attempt("abstract datagram", send)
