"""Guardrails of your own: write each as a function in this file, and name it in a request.

A guardrail is pure: it looks at what it is given, and calls no model, file, clock or network, for
a run must come out the same when it is replayed. It returns None where nothing is wrong. A
complete example, to copy below this docstring:

    from reflection.critique.guardrails.registry import Checked, Finding, guardrail


    @guardrail("no_prices")
    def no_prices(checked: Checked) -> Finding | None:
        '''Cap a draft that names a price: prices come from the shop alone.'''
        if "$" not in checked.draft:
            return None
        return Finding(cap=0.4, reason="the draft names a price: leave it to the shop")

The request names it beside Mull's own, or alone:

    {"query": "Reply to this customer ...", "guardrails": ["default", "no_prices"]}

A score above `cap` becomes `cap`, and the reason is the next revision's feedback: say in one line
what to change. With `Finding(cap, reason, above=0.8)` only a score above 0.8 is capped. With
`@guardrail("no_prices", default=True)` every request that asks for `default` has it. One that
raises caps nothing, and is named in the result. Restart the worker after a change.
"""
