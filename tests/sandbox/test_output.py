import pytest

from activities.sandbox.running.output import Kept
from reflection.run import encoded_size


def kept(data: bytes, most: int, chunk: int = 7) -> Kept:
    all_of_it = Kept(most)
    for start in range(0, len(data), chunk):
        all_of_it.add(data[start : start + chunk])
    return all_of_it


@pytest.mark.parametrize(
    ("data", "head", "tail"),
    [
        (b"", "", ""),
        (b"0123456789", "0123456789", ""),
        (b"01234-56789", "01234", "56789"),
        (b"01234" + b"-" * 1000 + b"56789", "01234", "56789"),
        # A character that the cut goes through is left out on either side.
        ("0123é-----é789".encode(), "0123", "é789"),
        ("01234-----😀78".encode(), "01234", "78"),
    ],
)
def test_ends(data: bytes, head: str, tail: str) -> None:
    """What fits is kept whole, and else as much of the beginning as of the end."""
    output = kept(data, 10).output()

    assert (output.head, output.tail, output.size) == (head, tail, len(data))


def test_bytes_that_are_no_text() -> None:
    """Bytes that are no UTF-8 become backslash escapes."""
    output = kept(b"a\xff\xc3(", 100).output()

    assert output.text == "a\\xff\\xc3("


@pytest.mark.parametrize("data", [b"\0" * 100, b"\xff" * 100, b"\0" * 60, b"\0" * 5000])
def test_size_as_json(data: bytes) -> None:
    """However a byte is written in JSON, no more is kept than was asked for."""
    output = kept(data, 100).output()

    assert encoded_size(output.head) + encoded_size(output.tail) <= 100
    assert output.head
    assert output.tail


def test_memory() -> None:
    """However much is printed, only what is kept is held."""
    all_of_it = kept(b"x" * 1_000_000, 1_000, chunk=65_536)

    assert len(all_of_it._head) + len(all_of_it._tail) == 1_000
