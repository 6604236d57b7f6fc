"""Folders that lie deeper than any path can say."""

import os
from pathlib import Path

NAME = "d" * 50


def dig(folder: Path, size: int, depth: int = 300) -> None:
    """Make a file of so many bytes beneath so many folders."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(NAME, dir_fd=handle)
        inner = os.open(NAME, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle)
    os.write(file, b"x" * size)
    os.close(file)
    os.close(handle)
