"""The text of PDF, page by page."""

import logging
from collections.abc import Iterator
from io import BytesIO
from time import monotonic

from pypdf import PageObject, PdfReader, apply_configuration
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

from activities.retrieval.bounds import PAGE_OPERATIONS, PDF_PAGES, PDF_SECONDS, STREAM_BYTES
from activities.retrieval.reading.drawing import LargeError, check_fonts, draws_forms, limits
from activities.retrieval.reading.lines import Line, Note, UnreadableError
from activities.retrieval.threads import Going, StoppedError
from reflection.text import well_formed

# What is wrong inside of a user's PDF is no matter of the worker's log.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


class _LateError(Exception):
    """The time for a file is over."""


def pdf_lines(content: bytes, going: Going, note: Note) -> Iterator[Line]:
    """Yield the lines of each page, of at most 2,000 pages and for at most 60 seconds.

    A page that draws over 1 MB, or in over 300,000 steps, or in over a hundred fonts, is left out,
    and noted, as are the pages after either bound. So much in a form within a page is left
    out of the page. `going` is called before each page, and may raise. Raises UnreadableError for
    what is broken or encrypted.
    """
    end = monotonic() + PDF_SECONDS

    def in_time() -> None:
        going()
        if monotonic() > end:
            raise _LateError

    with apply_configuration(limits(STREAM_BYTES)):
        reader, count = _open(content)
    for index in range(min(count, PDF_PAGES)):
        try:
            with apply_configuration(limits(STREAM_BYTES)):
                lines = _page(reader, index, in_time)
        except LargeError:
            note("pages that draw too much", f"page {index + 1}")
        except _LateError:
            note(f"pages that {PDF_SECONDS:g} s do not suffice for", f"pages from {index + 1}")
            return
        else:
            yield from lines
    if count > PDF_PAGES:
        note(f"pages beyond {PDF_PAGES:,}", f"pages from {PDF_PAGES + 1}")


def _open(content: bytes) -> tuple[PdfReader, int]:
    try:
        reader = PdfReader(BytesIO(content))
        return reader, len(reader.pages)
    except (FileNotDecryptedError, DependencyError):
        raise UnreadableError("encrypted") from None
    except Exception:  # pypdf raises whatever a broken file leads it to
        raise UnreadableError("a broken PDF") from None


def _page(reader: PdfReader, index: int, in_time: Going) -> list[Line]:
    in_time()
    try:
        text = well_formed(_text(reader.pages[index], in_time))
    except (LargeError, StoppedError, _LateError):
        raise
    except LimitReachedError:
        raise LargeError from None
    except (FileNotDecryptedError, DependencyError):
        raise UnreadableError("encrypted") from None
    except Exception:  # as above
        raise UnreadableError("a broken PDF") from None
    rows = enumerate(text.split("\n"), 1)
    return [Line(number, row.rstrip(), page=index + 1) for number, row in rows]


def _text(page: PageObject, in_time: Going) -> str:
    """Forms are pages within a page, and each may be drawn often: only they need a watch."""
    check_fonts(page)
    if not draws_forms(page):
        return page.extract_text()
    operations = 0

    def watch(*_: object) -> None:
        nonlocal operations
        operations += 1
        if operations > PAGE_OPERATIONS:
            raise LargeError
        in_time()

    text = page.extract_text(visitor_operand_before=watch)
    # What is raised while a form is read is caught there.
    watch()
    return text
