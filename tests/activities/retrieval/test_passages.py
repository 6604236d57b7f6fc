from activities.retrieval.reading.documents import read_document
from activities.retrieval.reading.passages import Part


def read(name: str, text: str) -> list[Part]:
    return read_document(name, text.encode(), lambda: None)


def test_passages_keep_to_paragraphs() -> None:
    """A paragraph that fits is never cut, and the lines are those of the file."""
    paragraph = "\n".join(["word " * 19 + "end"] * 5)
    text = "\n\n".join([paragraph] * 6)

    parts = read("a.txt", text)

    assert [(part.first_line, part.last_line) for part in parts] == [(1, 17), (19, 35)]
    assert all(part.text.split("\n\n") == [paragraph] * 3 for part in parts)


def test_every_line_is_in_a_passage() -> None:
    """The passages of code are its lines, one after the other."""
    rows = [f"    x{number} = {number}" if number % 7 else "" for number in range(1, 400)]

    parts = read("a.py", "\n".join(rows))

    said = [row for part in parts for row in part.text.split("\n") if row]
    assert said == [row for row in rows if row]
    assert all(rows[part.first_line - 1] == part.text.split("\n")[0] for part in parts)
    assert all(rows[part.last_line - 1] == part.text.split("\n")[-1] for part in parts)


def test_headings_stay_with_what_follows() -> None:
    """No passage ends with a heading, even where the passage before it has room."""
    section = "{}\n\n" + "word " * 250 + "\n\n"
    text = "".join(section.format(head) for head in ("# One", "Two\n===", "### Three"))

    parts = read("a.md", text)

    assert [part.text.split("\n")[0] for part in parts] == ["# One", "Two", "### Three"]


def test_long_lines_are_cut_at_separators() -> None:
    """A line of any length makes passages of at most 1,500 characters, cut between its parts."""
    text = ",".join(f'"key{number}":{number}' for number in range(2_000))

    parts = read("a.json", text)

    assert "".join(part.text for part in parts) == text
    assert all(len(part.text) <= 1_500 for part in parts)
    assert all(part.text.endswith(",") for part in parts[:-1])
    assert {(part.first_line, part.last_line) for part in parts} == {(1, 1)}


def test_a_word_without_an_end_is_cut() -> None:
    """Text without any separator is cut at 1,500 characters."""
    parts = read("a.txt", "x" * 4_000)

    assert [len(part.text) for part in parts] == [1_500, 1_500, 1_000]


def test_rows_of_a_table_have_its_header() -> None:
    """Each passage of a CSV file begins with the header, and its lines are those of the rows."""
    rows = ["name,price", *(f"part {number},{number}" for number in range(1, 301))]

    parts = read("a.csv", "\n".join(rows))

    assert len(parts) > 2
    for part in parts[1:]:
        said = part.text.split("\n")
        assert said == ["name,price", *rows[part.first_line - 1 : part.last_line]]


def test_nothing_written_makes_no_passage() -> None:
    """A file of blanks alone has no passages."""
    parts = read("a.txt", "\n \n\t\n")

    assert parts == []
