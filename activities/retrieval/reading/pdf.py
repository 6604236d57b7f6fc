"""The text of PDF, page by page."""

import logging
from collections.abc import Callable, Iterator
from io import BytesIO
from time import monotonic

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError

from activities.retrieval.bounds import PDF_PAGES, PDF_SECONDS
from activities.retrieval.reading.lines import Line, UnreadableError
from reflection.plain import well_formed

# What is wrong inside of a user's PDF is no matter of the worker's log.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def pdf_lines(content: bytes, going: Callable[[], None]) -> Iterator[Line]:
    """Yield the lines of each page, of at most 2,000 pages and for at most 60 seconds.

    `going` is called before each page, and may raise. Raises UnreadableError for what is broken
    or encrypted.
    """
    reader, count = _open(content)
    end = monotonic() + PDF_SECONDS
    for index in range(min(count, PDF_PAGES)):
        going()
        if monotonic() > end:
            break
        yield from _page(reader, index)


def _open(content: bytes) -> tuple[PdfReader, int]:
    try:
        reader = PdfReader(BytesIO(content))
        return reader, len(reader.pages)
    except (FileNotDecryptedError, DependencyError):
        raise UnreadableError("encrypted") from None
    except Exception:  # pypdf raises whatever a broken file leads it to
        raise UnreadableError("a broken PDF") from None


def _page(reader: PdfReader, index: int) -> list[Line]:
    try:
        text = well_formed(reader.pages[index].extract_text())
    except (FileNotDecryptedError, DependencyError):
        raise UnreadableError("encrypted") from None
    except Exception:  # as above
        raise UnreadableError("a broken PDF") from None
    rows = enumerate(text.split("\n"), 1)
    return [Line(number, row.rstrip(), page=index + 1) for number, row in rows]
