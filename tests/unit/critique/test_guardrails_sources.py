"""Research without sources, and citations of nothing."""

import pytest

from tests.unit.critique.guarded import HONEST, capped, reason

TWO = ("Reefs of the world. 2019.", "Bleaching events. 2021.")
LINKED = ("Reefs: https://www.reefs.org/growth/", "Bleaching, doi:10.1038/nature21707")


@pytest.mark.parametrize(
    "draft",
    [
        HONEST,
        f"{HONEST} [citation needed]",
        f"{HONEST}\n\nSources:\n",
        f"{HONEST}\n\n## References\n\n1.\n2.\n",
        f"{HONEST} See https://example.com/reefs.",
        f"{HONEST} See https://www.example.org/a and http://your-site.com/b.",
        f"{HONEST} See https:// for more.",
        f"{HONEST}\n```\n[1]\n```",
        f"{HONEST} As `[1]` shows.",
        f"{HONEST}\n\n    [1] indented",
        f"{HONEST} <!-- [1] https://reefs.org -->",
        f"{HONEST} It was so in [2024].",
        f"{HONEST} The list is [0, 1].",
        f"{HONEST} It began in summer (June, 2020).",
        f"{HONEST} ![reef](https://reefs.org/a.png)",
        f"{HONEST} [source] [link] [ref]",
    ],
)
def test_research_that_cites_nothing_is_capped(draft: str) -> None:
    """What only looks like a citation is none."""
    assert capped("no_sources", draft, asks_for=("citation_coverage",)) == 0.5


@pytest.mark.parametrize(
    "cited",
    [
        " It grows 1 cm a year [1].",
        " It grows.[^1]\n\n[^1]: Darwin, The structure of reefs.",
        " See https://reefs.org/growth.",
        " See [the survey](https://reefs.org/growth).",
        " doi:10.1038/nature21707",
        " So it was found (Hughes et al., 2017).",
        " Hughes and Kerry (2017) found this.",
        " (Smith, 2020)",
        "\n\nReferences\n1. Darwin, The structure of coral reefs, 1842\n",
        " arXiv:2301.01234",
        " It grows【1】.",
    ],
)
def test_research_that_cites_is_left_alone(cited: str) -> None:
    """Numbers, footnotes, links, DOIs, authors with years and lists of references are citations."""
    assert capped("no_sources", HONEST + cited, asks_for=("evidence",)) is None


def test_sources_are_needed_where_some_were_given_and_nowhere_else() -> None:
    """A general answer needs none, and one that was given sources does."""
    assert capped("no_sources", HONEST, asks_for=("clarity",)) is None
    assert capped("no_sources", HONEST, sources=TWO) == 0.5
    assert "[1] to [2]" in reason("no_sources", HONEST, sources=TWO)


@pytest.mark.parametrize(
    ("said", "sources"),
    [
        ("It grows [3].", TWO),
        ("It grows[7].", TWO),
        ("It grows [0].", TWO),
        ("It grows [1, 3].", TWO),
        ("It grows [1-4].", TWO),
        ("It grows [1][3].", TWO),
        ("It grows 【9】.", TWO),
        ("It grows [Source 5].", TWO),
        ("It grows [^3].\n\n[^3]: Made up, 2020.", TWO),
        ("It grows [^darwin].", TWO),
        ("It grows (Smith, 2020).", TWO),
        ("It grows [1], see https://reefs.org/other.", LINKED),
        ("It grows [1], see doi:10.1038/nature99999.", LINKED),
        ("It grows [1].", ()),
        ("It grows [1] and bleaches [2].\n\n[1] Darwin, Reefs", ()),
        ("It grows [^1].", ()),
        ("It grows [2].\n\n## Sources\n\n1. Darwin, The structure of reefs", ()),
        ("It grows [3].\n\n[3]\n", ()),
        ("It grows [^a].", ()),
    ],
)
def test_a_citation_of_no_source_is_capped(said: str, sources: tuple[str, ...]) -> None:
    """Whatever is cited is among the given sources, or in the draft's own references."""
    assert capped("unknown_citation", said, sources=sources) == 0.5


@pytest.mark.parametrize(
    ("said", "sources"),
    [
        (HONEST, TWO),
        ("It grows [1], and bleaches [2], or both [1, 2] [1-2].", TWO),
        ("It grows in [2024] as in [1998].", TWO),
        ("It grows [1], see https://reefs.org/growth#top.", LINKED),
        ("It grows [1] (https://www.reefs.org/growth).", LINKED),
        ("See https://doi.org/10.1038/nature21707.", LINKED),
        ("It grows, see https://elsewhere.org/x.", TWO),
        ("Use a[3] and items[9], then matrix[5][6].", ()),
        ("Use `x [3]` as in\n```\nprint([7])\n```\n", ()),
        ("The score lies in [0, 1].", ()),
        ("Sort the list [3, 1, 2] first.", ()),
        ("- [ ] to do\n- [x] done", ()),
        ("It grows [1].\n\n[1] Darwin, The structure of reefs", ()),
        ("It grows [2].\n\n**References:**\n1. Darwin, Reefs\n2. Hughes, Bleaching", ()),
        ("It grows [^1].\n\n[^1]: Darwin, The structure of reefs", ()),
        ("Read [the guide](https://reefs.org/guide) and [2](https://reefs.org/2).", ()),
    ],
)
def test_a_citation_of_a_known_source_is_left_alone(said: str, sources: tuple[str, ...]) -> None:
    """Indices, intervals, years and check boxes are no citations either."""
    assert capped("unknown_citation", said, sources=sources) is None


def test_the_reason_names_what_is_unknown() -> None:
    """The writer reads which citations to mend."""
    assert reason("unknown_citation", "So [4] and [9].", sources=TWO) == (
        "the draft cites [4], [9], not among the 2 given sources: cite what is, or add it"
    )
