"""The form under which an answer votes."""

import pytest

from mull.sampling.answers import Clusters, read_answer
from mull.sampling.request import AnswerKind

# By form, what has it.
EXACT: dict[str | None, list[str | None]] = {
    "Paris.": ["  Paris.\n"], "PARIS": ["PARIS"], "a  b": ["a  b"],
    "(10-6)*(4+5)": ["(10-6)*(4+5)"], "x\ufffd": ["x\ud800"], None: ["", " \t\u00a0", None],
}  # fmt: skip
TEXT: dict[str | None, list[str | None]] = {
    "paris": ["Paris.", " PARIS! ", "Paris !", "**Paris**", '"Paris".', "«Paris»",
              "\uff30\uff41\uff52\uff49\uff53"],
    "strasse": ["Stra\u00dfe"],
    "new york": ["New-York", "new\u00a0 york"],
    "paris france": ["Paris, France"],
    "the titanic sank": ["the “Titanic” sank."],
    "don't": ["don\u2019t"],
    "5": ["5."],
    "-5": ["\u22125"],
    "a<b": ["a < b"],
    "(10-6)*(4+5)": ["(10 - 6) * (4 + 5)"],
    "c++": ["C++."],
    "10^2": ["10²"],
    "3 1/2": ["3½"],
    "東京": ["東京。"],
    "?": ["?"],
    "...": ["..."],
    None: ["\u200b", "  "],
}  # fmt: skip
NUMBER: dict[str | None, list[str | None]] = {
    "129": ["129", "129."],
    "7": ["007"],
    "3": ["(3)", "[3]"],
    "0": ["-0"],
    "5": ["+5", "5 km", "x = 5"],
    "-5": ["\u22125", "minus 5", "-$5", "$-5"],
    "12": ["€ 12", "12 €", "12 apples", "\uff11\uff12"],
    "42": ["The answer is 42.", "42 (42.0)", "\\boxed{42}", "**42**", "'42'", "\\(42\\)", "٤٢",
           "Answer: 42", "[42]", "42 (forty-two, exactly)", "(forty-two), 42"],
    "1290": ["$1,290.00", "(1,290.00)", "1,290", "1\u202f290", "1\u00a0290", "1.29e3", "1.29E3",
             "#### 1,290"],
    "1000000": ["1 000 000"],
    "100000": ["1,00,000"],
    "1290.5": ["1.290,50"],
    "1290000": ["1.290.000"],
    "1.5": ["1,5"],
    "0.29": ["0,290"],
    "1.29": ["1.290"],
    "2500": ["2.5 × 10^3", "2.5 \\times 10^{3}"],
    "1000": ["10³", "(1,000)", "[1,000]", "($1,000)", "\uff081,000\uff09", "(1{,}000)"],
    "-1000": ["(-1,000)"],
    "100000.5": ["(1,00,000.50)"],
    "1.2": ["1,2", "a) 1,2", "[m] 1,2 [x]", "\\(1,2\\)", "\\boxed{1,2}", "1,2 (rounded, in m)"],
    "1500000": ["1.5 million"],
    "5000000": ["5 millions"],
    "0.75": ["3/4"],
    "-0.75": ["-\\frac{3}{4}"],
    "1/3": ["1/3"],
    "-1/3": ["-2/6"],
    "0.5": ["0.50", ".5", "1/2", "50 %", "50 percent", "\\frac12", "$\\boxed{\\frac{1}{2}}$"],
    "0.005": ["5 ‰"],
    "3.5": ["3 1/2", "3½", "3\\frac{1}{2}"],
    "0.000000000000000000000000000001": ["1e-30"],
    "1/10000000000000000000000000000000": ["1e-31"],
    "1000000000000000000000000000000": ["1e30"],
    "50": ["50 km/h"],
    "90": ["90°"],
    "4": ["2 + 2 = 4"],
    "3.14": ["π ≈ 3.14"],
    "8": ["5 + 3 is 8, so the answer is 8"],
    None: [
        *(None, "", "forty", "NaN", "inf", "∞", "1/0", "0/0"),
        *("1e999999999", "1e-999999999", "1e1000000000000", "1e1000", "1." + "0" * 1_100),
        *("9" * 1_001, "9" * 100_000),
        *("5 or 6", "x = 2, y = 3", "x = 2 or x = 3", "3x + 2 = 17", "1,2,3", "5 5", "12 34"),
        *("10-6", "5-5", "2+2", "2**3", "2^2", "5!", "2x", "2π", "2 pi", "√2", "f(5)", "3+4i"),
        *("< 5", "x != 5", "±5", "at least 5", "not 5", "5+"),
        *("$2M", "$5m", "3k", "3 tenths", "2 hundred thousand"),
        *("12:30", "2024-05-01", "12/25/2024", "1.2.3", "5'10\"", "0x1F", "A5", "0.333..."),
        *("(3,4]", "[3,4)", "(3,4)", "{3,4}", "[1, 2]", "(3;4)", "]3,4[", "]-1,4]", "[3,4["),
        *("(3,4", "(1,5)", "(0,500)", "(1.000,50)", "(1,000, x)", "((4), x)", "((4), (x))"),
        *("(4,)", "(x; 4)", "The answer is (3,4].", "x in [3,4)", "P = (3,4)", "It is {3,4}."),
        *("**(3,4]**", "$(3,4)$", "\\left(3,4\\right]", "\\boxed{(3,4)}", "\\{3,4\\}"),
        *("\\boxed{\\left[3,4\\right)}", "\\bigl(3,4\\bigr)", "\uff083,4\uff3d", "42 (i.e., 42)"),
        *("\uff3b3\uff0c4\uff09", "\uff5b3,4\uff5d", "(\uff13\uff0c\uff14)"),
        "1\x002",
    ],
}  # fmt: skip
CHOICE: dict[str | None, list[str | None]] = {
    "A": ["A", "a", "a)", "option a", "The answer is a", "A. John F. Kennedy", "I think it is A"],
    "B": ["(b)", "Ⓑ", "**B**", "B. Paris", "b) Paris", "B: Paris", "B - Paris", "B. Vitamin C",
          "B. It does not rain", "\\boxed{B}", "I think it is B.", "A good choice is B"],
    "C": ["[c].", "Option C", "it is (C)", "The answer is (C).", "C is correct",
          "$\\boxed{\\text{C}}$"],
    "D": ["Answer: D", "**Answer: (D) 42**"],
    "I": ["I"],
    None: [
        *(None, "", "?", "5", "Paris", "Vitamin C", "A+", "C++", "A. " * 5_000),
        *("A dog", "Answer: A dog", "I agree", "I think it is a"),
        *("A or B", "Both A and C", "(A) or (B)", "(A)(B)", "A) and C)", "A: correct, B: wrong"),
        *("Options B and C", "It is not B", "The answer is not B"),
    ],
}  # fmt: skip
FORMS: dict[AnswerKind, dict[str | None, list[str | None]]] = {
    "exact": EXACT, "text": TEXT, "number": NUMBER, "choice": CHOICE,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "raw", "form"),
    [(kind, raw, form) for kind in FORMS for form, raws in FORMS[kind].items() for raw in raws],
)
def test_the_form_of_an_answer(kind: AnswerKind, raw: str | None, form: str | None) -> None:
    """The spellings of one answer have one form, and what is no answer of the kind has none."""
    assert read_answer(kind, raw) == form


@pytest.mark.parametrize(
    ("kind", "name"), [("text", "New York."), ("llm", "New York."), ("exact", "new york")]
)
def test_a_cluster_has_the_name_of_its_first_answer(kind: AnswerKind, name: str) -> None:
    """A text is named as it was first written, and what joins a cluster belongs to it for good."""
    clusters = Clusters(kind)

    opened = clusters.open("new york", " New  York. ")
    clusters.join("big apple", opened)

    assert (opened, clusters.join("big apple", "other")) == (name, name)
    assert clusters.names == (name,)
    assert (clusters.find("big apple"), clusters.find("paris")) == (name, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("-5", "5"), ("1.5", "15"), ("1,5", "15"), ("3/4", "34"), ("50%", "50"), ("$5", "5")),
        *(("5!", "5"), ("n!", "n"), ("0.333...", "0.333"), ("10²", "102"), ("3½", "31/2")),
        *(("a < b", "a > b"), ("a != b", "a = b"), ("a - b", "a b"), ("x-5", "x 5")),
        *(("C++", "C"), ("C#", "C"), ("f'(x)", "f(x)"), ("[1, 2]", "(1, 2)"), (".", "?")),
        *(("(10-6)*(4+5)", "(10-6)*(4-5)"), ("(10-4)*5-6", "(10-4)*(5-6)")),
        ('print("5")', "print(5)"),
    ],
)
def test_a_text_never_joins_what_differs_in_meaning(one: str, other: str) -> None:
    """Texts that differ in a sign, a symbol or a bracket vote apart."""
    assert read_answer("text", one) != read_answer("text", other)
