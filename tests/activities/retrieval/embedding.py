"""An embedding model that a test writes."""

from collections.abc import Sequence

from activities.retrieval.meaning.embedding import Embedded
from reflection.run import Spending

MODEL = "house/embedding"
FRUIT = {"apple", "pear", "fruit", "quince"}
PRICED = Spending(calls=1, input_tokens=10, output_tokens=0, cached_tokens=0, cost_usd=0.001)


class ScriptedEmbedder:
    """Embed a text by whether it is of fruit; fail with `errors` first, each at a call.

    Each call costs `spending`.
    """

    def __init__(self, *errors: Exception | None, spending: Spending = PRICED) -> None:
        self.errors = list(errors)
        self.spending = spending
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str], model: str, timeout_seconds: float) -> Embedded:
        assert (model, timeout_seconds) == (MODEL, 120.0)
        self.batches.append(list(texts))
        if self.errors and (error := self.errors.pop(0)):
            raise error
        vectors = [
            [3.0, 4.0] if FRUIT & set(text.lower().split()) else [0.0, 2.0] for text in texts
        ]
        return Embedded(vectors, self.spending, "house")
