import pytest
import typer

from commands.start import chosen_criteria


def test_a_preset_is_its_name() -> None:
    """Without criteria of one's own the request gets the name, or nothing."""
    assert chosen_criteria("code", []) == "code"
    assert chosen_criteria(None, []) is None


@pytest.mark.parametrize(
    ("text", "name", "weight", "meaning"),
    [
        ("tone=It is courteous.", "tone", 1.0, "It is courteous."),
        ("tone*2=It is courteous.", "tone", 2.0, "It is courteous."),
        (" tone * 0.5 = a = b * c ", "tone", 0.5, "a = b * c"),
    ],
)
def test_a_criterion_of_ones_own(text: str, name: str, weight: float, meaning: str) -> None:
    """The name ends at the first =, its weight stands after a *."""
    assert chosen_criteria(None, [text]) == [{"name": name, "weight": weight, "meaning": meaning}]


@pytest.mark.parametrize(
    ("preset", "own", "said"),
    [
        ("code", ["tone=x"], "not both"),
        (None, ["tone"], "--criterion: write NAME[*WEIGHT]=MEANING"),
        (None, ["tone="], "--criterion: write NAME[*WEIGHT]=MEANING"),
        (None, ["tone*much=x"], "--criterion: the weight after *"),
        (None, ["tone*nan=x"], "--criterion: weight: "),
        (None, ["tone*0=x"], "--criterion: weight: "),
        (None, ["Tone of voice=x"], "--criterion: name: "),
    ],
)
def test_a_mistake_is_one_line(
    preset: str | None, own: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each names the option, and ends with exit code 2."""
    with pytest.raises(typer.Exit) as ended:
        chosen_criteria(preset, own)

    shown = capsys.readouterr().err
    assert ended.value.exit_code == 2
    assert said in shown
    assert shown.count("\n") == 1
