"""A tool-using turn that reflects midway: its budget, its tools, its decisions; pure.

A `ToolTurnRequest` (request) begins a `Turn` (loop), which holds the messages (conversation), one
`TurnBudget` (budget), the `ToolCalls` (tools) and the reflections (midturn). A workflow lists the
worker's tools and rules once, plans the thinking (levels), hands all to `Turn.begin`, and then does
what each `Turn.decide` names next:

- `ask`: the guidance, the messages and the tools go to the model; the reply to `Turn.replied`.
- `call_tools`: each wave of `turn.calls.waves()` in order: `admit` and `judge` each call, wait for
  a person where one is `asking` (`budget.begin_wait`, `permit`, `budget.end_wait`), run those that
  wait side by side, each for `budget.tool_seconds` (None: `not_run`), and `finish` each.
- `reflect`: `Turn.begin_reflection` returns the call's time-out, or None where a stub stands; the
  call has `midturn.SYSTEM` and `turn.reflection_prompt`; then `Turn.reflected` (None: it failed).
- `compact`: a call with `turn.summary_prompt`, then `Turn.compacted`.

A decision that stops ends it: `Turn.result` (result), shown by `sheet`. Source: the reflection
engine, and the public documentation of the agent harness and the thinking manager around it.
"""
