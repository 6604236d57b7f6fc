"""What a person approves is shown whole: what can't be seen, or misleads, stands as escapes."""

# ruff: noqa: RUF001 - honest texts have letters that look alike

import json
import unicodedata

import pytest

from mull.text import revealed

HIDDEN: list[tuple[str, str]] = [
    ("alice\u2060", "alice\\u2060"),
    ("a\U000e0041", "a\\U000e0041"),
    ("pay\u200bpal", "pay\\u200bpal"),
    ("a\u200db", "a\\u200db"),
    ("a\u3164b\u2800c\uffa0d\u115fe", "a\\u3164b\\u2800c\\uffa0d\\u115fe"),
    ("a\u00a0b\u2003c\u3000d\u1680e", "a\\u00a0b\\u2003c\\u3000d\\u1680e"),
    ("a\u2028b\u2029c\td", "a\\u2028b\\u2029c\\u0009d"),
    ("\u202eevil\u202c \u2066x\u2069 \u061c", "\\u202eevil\\u202c \\u2066x\\u2069 \\u061c"),
    ("a\ue000b\U000f0000c\ufffed", "a\\ue000b\\U000f0000c\\ufffed"),
    ("a\x1b[31mb\x7fc\x9bd", "a\\u001b[31mb\\u007fc\\u009bd"),
    ("a\ufe0fb\U000e0100c\u034fd\u00ade", "a\\ufe0fb\\U000e0100c\\u034fd\\u00ade"),
    ("a\U0001d159b\U00013441", "a\\U0001d159b\\U00013441"),
    # Cyrillic, Greek, Armenian, Cherokee, Coptic, Lisu; mathematical and wide Latin; a Kelvin sign.
    ("\u0430lice", "\\u0430lice"),
    ("p\u0430yp\u0430l", "p\\u0430yp\\u0430l"),
    ("\u0440\u0430\u0443\u0440\u0430l", "\\u0440\\u0430\\u0443\\u0440\\u0430l"),
    ("g\u03bf\u03bfgle p\u03b1ypal", "g\\u03bf\\u03bfgle p\\u03b1ypal"),
    ("\u0391lice", "\\u0391lice"),
    ("b\u0585b", "b\\u0585b"),
    ("\u13aalice", "\\u13aalice"),
    ("\u2c9flice", "\\u2c9flice"),
    ("\ua4d0lice", "\\ua4d0lice"),
    ("\U0001d41alice \uff41lice \u212aate", "\\U0001d41alice \\uff41lice \\u212aate"),
    ("adm\u0456n", "adm\\u0456n"),
    # A whole part of an address.
    ("\u0430\u0441\u0435@mail.com", "\\u0430\\u0441\\u0435@mail.com"),
    ("https://\u0430\u0440\u0440\u04cf\u0435.com", "https://\\u0430\\u0440\\u0440\\u04cf\\u0435.com"),
    # Numerals, small capitals, mathematical letters and digits; scripts without case within a word.
    ("ali\u217de a\u217cice", "ali\\u217de a\\u217cice"),
    ("ali\u1d04e b\u1d0fb \u0261reg \u0251lice", "ali\\u1d04e b\\u1d0fb \\u0261reg \\u0251lice"),
    ("\U0001d68a\U0001d68b", "\\U0001d68a\\U0001d68b"),
    ("1\U0001d7f60", "1\\U0001d7f60"),
    ("b\u05e1b a\u05d5\u05d5ice b\u101db", "b\\u05e1b a\\u05d5\\u05d5ice b\\u101db"),
    ("10\u09e6\u09e6 1\u1040", "10\\u09e6\\u09e6 1\\u1040"),
    # Signs in addresses and amounts.
    ("bank\u2024com bank.com\u2044x.evil.com", "bank\\u2024com bank.com\\u2044x.evil.com"),
    ("my\u2010bank.com a\uff20bank.com", "my\\u2010bank.com a\\uff20bank.com"),
    ("http\ua789//bank.com 1\u201a000", "http\\ua789//bank.com 1\\u201a000"),
    ("10\u0335 o\u20dd", "10\\u0335 o\\u20dd"),
    # A pile of marks.
    ("a\u0301\u0302\u0303b", "a\\u0301\\u0302\\u0303b"),
    ("a" + "\u0336" * 9, "a" + "\\u0336" * 9),
    ("\u0e01" + "\u0e49" * 5, "\u0e01" + "\\u0e49" * 5),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), HIDDEN)
def test_what_misleads_is_shown_as_escapes(text: str, shown: str) -> None:
    """What can be seen beside it stays as it is."""
    assert revealed(text) == shown


HONEST = [
    "Pay 12.50 to alice@example.org\nand say thanks.",
    "Перевести Анне Сергеевой 100 рублей",
    "Сара и Ева", "оса", "USB-кабель", "отчёт.pdf", "https://ru.wikipedia.org/wiki/Москва",
    "/home/иван/файл.txt", "report_отчёт.pdf", "Київ, вул. Хрещатик",
    "Καλημέρα κόσμε, η Ελλάδα", "α-helix, TNF-α, Δt, kΩ, μm, µm, λmax, Ω",
    "Բարեւ աշխարհ", "ᏣᎳᎩ", "გამარჯობა",
    "नमस्ते दुनिया, लड़कियों के लिए बड़ें", "สวัสดีครับ ที่นี่", "ཀྲུང་གོ་ བསྒྲུབས",
    "日本語のPDFファイル", "한국어 text", "中文abc", "שָּׁלוֹם", "مُحَمَّدٌ سلام",
    "Việt Nam, ấm áp", unicodedata.normalize("NFD", "Việt Nam, ấm áp"),
    "Zoë, Łukasz, Ümit, ışık, straße, œuvre, Nº 5, 1ª, xⁿ, ﬁle",
    "👍 🇩🇪 🎉 😀 \U0001fae8 \U00031350",
    "well\u2011known, 邮箱：alice@example.com，时间：10.5GB", "第１章 १२३ ०",
    "Henry Ⅳ", "הGoogle", "1⁄2",
    "1 € = 1.08 $, 20 °C, 5 × 3 ≤ 16 → «ok» “quoted” – …", "ʻokina",
]  # fmt: skip


@pytest.mark.parametrize("text", HONEST)
def test_honest_texts_stay_as_they_are(text: str) -> None:
    """Whole words of other scripts, units, names, symbols and emoji."""
    assert revealed(text) == text


@pytest.mark.parametrize("text", ["می\u200cخواهم", "क\u094d\u200dष", "👩\u200d💻", "❤\ufe0f"])
def test_joiners_are_shown_too(text: str) -> None:
    """They are honest in these scripts, and can't be told there from ones that hide something."""
    assert revealed(text) != text
    assert "\\u" in revealed(text)


def test_an_escape_is_told_from_its_own_letters() -> None:
    """In arguments, which are JSON, a backslash stands twice."""
    seen = [revealed(json.dumps({"to": to}, ensure_ascii=False)) for to in ("a\u2060", "a\\u2060")]

    assert seen == ['{"to": "a\\u2060"}', '{"to": "a\\\\u2060"}']


def test_every_invisible_character_of_unicode_is_shown() -> None:
    """Controls, formats, separators, those without a meaning, and half characters."""
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
    unseen = [
        chr(code)
        for code in (*range(0x3000), *range(0xD7A4, 0x10000), *range(0xE0000, 0xE0200))
        if unicodedata.category(chr(code)) in kinds and chr(code) not in " \n"
    ]

    assert [one for one in unseen if one in revealed(f"a{one}b")] == []
