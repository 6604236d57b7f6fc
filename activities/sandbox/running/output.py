"""Keeping the beginning and the end of what a program prints, however much it is."""

from activities.sandbox.port import Output
from reflection.run import cut_encoded, encoded_size


class Kept:
    """Bytes of which the first and the last are kept, never more than `most` of them."""

    def __init__(self, most: int) -> None:
        self.size = 0
        self._half = most // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take more bytes in."""
        self.size += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-self._half :] if room < len(data) else b""
        if len(self._tail) > self._half:
            del self._tail[: len(self._tail) - self._half]

    def output(self) -> Output:
        """Return it as text that takes at most as many bytes as JSON, too."""
        whole = self.size == len(self._head) + len(self._tail)
        if whole:
            text = _text(self._head + self._tail)
            if encoded_size(text) <= 2 * self._half:
                return Output(head=text, tail="", size=self.size)
        head, tail = self._head, self._tail
        if whole and not tail:
            head, tail = head[: len(head) // 2], head[len(head) // 2 :]
        return Output(
            head=cut_encoded(_text(_without_broken_end(head)), self._half),
            tail=cut_encoded(_text(_without_broken_start(tail))[::-1], self._half)[::-1],
            size=self.size,
        )


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "backslashreplace")


def _without_broken_end(data: bytearray) -> bytearray:
    """Leave out a character that the cut went through."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if needed > back else data
    return data


def _without_broken_start(data: bytearray) -> bytearray:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
