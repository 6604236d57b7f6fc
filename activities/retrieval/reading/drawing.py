"""How much a page of a PDF draws, before that is looked at: text is read out of all of it."""

from pypdf import Configuration, PageObject, apply_configuration
from pypdf.errors import LimitReachedError
from pypdf.generic import ArrayObject, DictionaryObject, StreamObject

from activities.retrieval.bounds import FONTS_BYTES, PAGE_BYTES, PAGE_OPERATIONS

# A few kilobytes may stand for gigabytes, in as many steps as there are filters.
WORK = 4


class LargeError(Exception):
    """A page draws so much that its text is not read."""


def limits(size: int) -> Configuration:
    """Bound what anything in a PDF may decode to, in bytes, and what of it may be parsed."""
    return Configuration(
        zlib_maximum_output_length=size,
        zlib_maximum_recovery_input_length=PAGE_BYTES,
        lzw_maximum_output_length=size,
        run_length_maximum_output_length=size,
        brotli_maximum_output_length=size,
        array_based_stream_maximum_output_length=size,
        stream_decoding_work_maximum_length=WORK * size,
        stream_parsing_work_maximum_count=PAGE_OPERATIONS,
    )


def draws_forms(page: PageObject) -> bool:
    """Say whether a page draws what is kept apart from it. Raises LargeError."""
    contents = page.get("/Contents")
    found = contents.get_object() if contents is not None else None
    drawn, room = False, PAGE_BYTES
    for each in found if isinstance(found, ArrayObject) else [found]:
        stream = each.get_object() if each is not None else None
        if isinstance(stream, StreamObject):
            data = _decoded(stream)
            room -= len(data)
            drawn = drawn or b"Do" in data
        if room < 0:
            raise LargeError
    return drawn


def check_fonts(page: PageObject) -> None:
    """Raise LargeError where it takes long to read what the characters of a page's fonts are."""
    room = FONTS_BYTES
    fonts = _part(_part(page, "/Resources"), "/Font")
    for name in fonts:
        table = _part(fonts, name).get("/ToUnicode")
        stream = table.get_object() if table is not None else None
        size = len(_decoded(stream)) if isinstance(stream, StreamObject) else 0
        room -= max(size, FONTS_BYTES // 100)
        if room < 0:
            raise LargeError


def _part(whole: DictionaryObject, name: str) -> DictionaryObject:
    found = whole.get(name)
    part = found.get_object() if found is not None else None
    return part if isinstance(part, DictionaryObject) else DictionaryObject()


def _decoded(stream: StreamObject) -> bytes:
    try:
        with apply_configuration(limits(PAGE_BYTES)):
            return stream.get_data()
    except LimitReachedError:
        raise LargeError from None
