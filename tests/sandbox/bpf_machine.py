"""An interpreter of classic BPF, as far as a seccomp filter uses it."""

import errno
import struct

from activities.sandbox.seccomp import groups

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003}


def answer(program: bytes, architecture: str, number: int, *arguments: int) -> str:
    """Return what the filter answers: "allow", "kill", the name of an error, or "done" for none."""
    words = [each & 0xFFFF_FFFF_FFFF_FFFF for each in (*arguments, *(0,) * 6)][:6]
    data = struct.pack("<IIQ6Q", number, ARCHITECTURES[architecture], 0, *words)
    action = _run(list(struct.iter_unpack("<HBBI", program)), data)
    match action >> 16:
        case 0x7FFF:
            return "allow"
        case 0x8000:
            return "kill"
        case 0x0005:
            return errno.errorcode.get(action & 0xFFFF, "done")
    raise AssertionError(f"no answer of seccomp: {action:#x}")


def number_of(name: str, machine: str = "x86_64") -> int:
    """Return the number of a system call that a filter knows."""
    return next(group[name] for group in groups(machine).values() if name in group)


def _run(program: list[tuple[int, ...]], data: bytes) -> int:
    at = accumulator = 0
    while True:
        code, true, false, constant = program[at]
        at += 1
        match code:
            case 0x20:
                accumulator = struct.unpack_from("<I", data, constant)[0]
            case 0x54:
                accumulator &= constant
            case 0x06:
                return constant
            case 0x15:
                at += true if accumulator == constant else false
            case 0x25:
                at += true if accumulator > constant else false
            case 0x35:
                at += true if accumulator >= constant else false
            case 0x45:
                at += true if accumulator & constant else false
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")
