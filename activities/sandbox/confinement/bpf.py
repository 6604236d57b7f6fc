"""Classic BPF, as seccomp takes it: instructions, and the few shapes a filter is made of.

A guard refuses the call or falls through; what follows the last guard is the answer. So no jump
leaves its block, and nothing has to be linked.
"""

import errno
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ALLOW = 0x7FFF_0000
KILL_PROCESS = 0x8000_0000
ERRNO = 0x0005_0000

LOAD = 0x20
JUMP_EQUAL = 0x15
JUMP_GREATER = 0x25
JUMP_AT_LEAST = 0x35
JUMP_ANY_BIT = 0x45
AND = 0x54
RETURN = 0x06

# struct seccomp_data: the number, the architecture, the instruction pointer, six arguments.
NUMBER = 0
ARCHITECTURE = 4
ARGUMENTS = 16


class Instruction(NamedTuple):
    """One struct sock_filter: operation, jump where true, jump where not, constant."""

    code: int
    true: int
    false: int
    constant: int


Block = list[Instruction]


def load(offset: int) -> Instruction:
    """Load a word of struct seccomp_data."""
    return Instruction(LOAD, 0, 0, offset)


def answer(action: int) -> Instruction:
    """End the filter."""
    return Instruction(RETURN, 0, 0, action)


def fail(number: int = errno.EPERM) -> Instruction:
    """Let the call return an error, or success where the number is 0, without its being made."""
    return answer(ERRNO | number)


def when(system_call: int, guards: Block) -> Block:
    """Allow one system call where all its guards let it through."""
    return [Instruction(JUMP_EQUAL, 0, len(guards) + 1, system_call), *guards, answer(ALLOW)]


def one_of(index: int, values: Sequence[int], mask: int | None = None) -> Block:
    """Refuse where an argument, or what a mask leaves of it, is none of some values."""
    count = len(values)
    found = [Instruction(JUMP_EQUAL, count - i, 0, value) for i, value in enumerate(values)]
    masked = [] if mask is None else [Instruction(AND, 0, 0, mask)]
    return [_argument(index), *masked, *found, fail()]


def none_of(index: int, values: Sequence[int], mask: int | None = None) -> Block:
    """Refuse where an argument, or what a mask leaves of it, is one of some values."""
    found = [each for value in values for each in (Instruction(JUMP_EQUAL, 0, 1, value), fail())]
    masked = [] if mask is None else [Instruction(AND, 0, 0, mask)]
    return [_argument(index), *masked, *found]


def without_bits(index: int, bits: int) -> Block:
    """Refuse where one of the bits is set in an argument."""
    return [_argument(index), Instruction(JUMP_ANY_BIT, 0, 1, bits), fail()]


def ranges(numbers: Iterable[int], then: Instruction) -> Block:
    """Answer alike for many system calls, neighbours compared together."""
    return [each for low, high in _spans(sorted(set(numbers))) for each in _within(low, high, then)]


def encode(program: Sequence[Instruction]) -> bytes:
    """Return the array of struct sock_filter, 8 bytes each."""
    return b"".join(struct.pack("<HBBI", *each) for each in program)


def _argument(index: int) -> Instruction:
    # The low half: the kernel takes pids, commands, families and flags as 32 bits.
    return load(ARGUMENTS + 8 * index)


def _within(low: int, high: int, then: Instruction) -> Block:
    return [Instruction(JUMP_AT_LEAST, 0, 2, low), Instruction(JUMP_GREATER, 1, 0, high), then]


def _spans(numbers: Sequence[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans
