"""The seccomp filter where nothing else keeps a program from sockets, signals and files."""

import pytest

from activities.sandbox.seccomp import MACHINES, OWN_PID, build_filter
from tests.sandbox.bpf_machine import answer, number_of


@pytest.mark.parametrize(
    ("name", "arguments", "without", "with_network"),
    [
        ("socket", (1, 1, 0), "EPERM", "allow"),
        ("socket", (2, 1, 6), "EPERM", "allow"),
        ("socket", (10, 0x80802, 17), "EPERM", "allow"),
        ("socket", (2, 3, 1), "EPERM", "EPERM"),
        ("socket", (2, 1, 262), "EPERM", "EPERM"),
        ("socket", (2, 5, 132), "EPERM", "EPERM"),
        ("socket", (16, 3, 0), "EPERM", "EPERM"),
        ("socket", (17, 3, 0), "EPERM", "EPERM"),
        ("socket", (38, 5, 0), "EPERM", "EPERM"),
        ("socket", (40, 1, 0), "EPERM", "EPERM"),
        ("socketpair", (1, 0x80001, 0), "allow", "allow"),
        ("socketpair", (1, 2, 0), "EPERM", "allow"),
        ("socketpair", (30, 1, 0), "EPERM", "EPERM"),
        ("connect", (3,), "EPERM", "allow"),
        ("bind", (3,), "EPERM", "allow"),
        ("listen", (3,), "EPERM", "allow"),
        ("sendto", (3,), "allow", "allow"),
    ],
)
def test_sockets(name: str, arguments: tuple[int, ...], without: str, with_network: str) -> None:
    """Without a network of its own a program has a connected pair, and no socket else."""
    number = number_of(name)

    got = [
        answer(build_filter(sockets, machine="x86_64"), "x86_64", number, *arguments)
        for sockets in (False, True)
    ]

    assert got == [without, with_network]


@pytest.mark.parametrize(
    ("name", "pid", "kept_inside", "not_kept"),
    [
        ("kill", OWN_PID, "allow", "allow"),
        ("kill", 0, "allow", "allow"),
        ("kill", 1, "allow", "EPERM"),
        ("kill", -1, "allow", "EPERM"),
        ("kill", -OWN_PID, "allow", "EPERM"),
        ("tgkill", OWN_PID, "allow", "allow"),
        ("tgkill", 1, "allow", "EPERM"),
        ("tkill", OWN_PID, "allow", "EPERM"),
        ("rt_sigqueueinfo", 1, "allow", "EPERM"),
        ("pidfd_send_signal", 3, "allow", "EPERM"),
    ],
)
def test_signals(name: str, pid: int, kept_inside: str, not_kept: str) -> None:
    """Where nothing else keeps signals inside, a program signals itself and its group alone."""
    number = number_of(name)

    got = [
        answer(build_filter(False, signals, machine="x86_64"), "x86_64", number, pid)
        for signals in (True, False)
    ]

    assert got == [kept_inside, not_kept]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "own", "shared"),
    [
        ("fchmodat", (), "allow", "done"),
        ("fchownat", (), "allow", "done"),
        ("utimensat", (), "allow", "done"),
        ("truncate", (), "allow", "EPERM"),
        ("ftruncate", (), "allow", "allow"),
        ("openat", (-100, 0, 0o1102), "allow", "allow"),
        ("openat", (-100, 0, 0o1101), "allow", "allow"),
        ("openat", (-100, 0, 0o0), "allow", "allow"),
        ("openat", (-100, 0, 0o1000), "allow", "EPERM"),
        ("openat2", (), "allow", "ENOSYS"),
    ],
)
def test_files_of_the_same_user(
    machine: str, name: str, arguments: tuple[int, ...], own: str, shared: str
) -> None:
    """A program with the worker's own user changes no modes, owners or sizes of its files."""
    number = number_of(name, machine)

    got = [
        answer(build_filter(False, True, own_user, machine), machine, number, *arguments)
        for own_user in (True, False)
    ]

    assert got == [own, shared]
