"""Everything that bounds what a retrieval reads, keeps, asks and waits for, in one place."""

FILE_BYTES = 20_000_000
FILE_LINES = 1_000_000
FOLDER_FILES = 50_000
FOLDER_BYTES = 500_000_000
OPEN_FOLDERS = 16

PDF_PAGES = 2_000
PDF_SECONDS = 60.0
# Python reads a megabyte of what a page draws in about two seconds.
PAGE_BYTES = 1_000_000
PAGE_OPERATIONS = 300_000
# The tables of characters of a page's fonts, each of which counts as a hundredth at least.
FONTS_BYTES = 4_000_000
# What else is packed in a PDF, as tables of its objects are.
STREAM_BYTES = 8_000_000
LONGEST_TAG = 2_000_000

PASSAGE_CHARACTERS = 1_500
SOURCE_BYTES = 1_000

QUERY_CHARACTERS = 100_000
QUERY_TERMS = 64
HITS = 100
# Equals are cut off in no fixed order, so that a search that ends among them is made wider.
SEARCH_WIDTHS = (1_000, 20_000, 1_000_000)

THREADS = 8
LONG_WORKS = 6
STOP_SECONDS = 2.0
LOCK_SECONDS = 60.0
COMMIT_SECONDS = 5.0

# A check that costs more than the first is made at most every so many times its own cost.
FREE_CHECK_SECONDS = 0.005
CHECK_COSTS = 10

EMBEDDED_PASSAGES = 20_000
EMBEDDED_CHARACTERS = 4_000
EMBEDDING_BATCH = 64
EMBEDDING_SECONDS = 60.0
VECTORS_BUSY_SECONDS = 10.0
NEAREST = 200
