"""A tool-using turn that reflects midway: its budget, its tools, its decisions; pure.

How the parts fit. A `ToolTurnRequest` (request) begins a `Turn` (loop), which holds the messages
(conversation), one `TurnBudget` (budget), the `ToolCalls` (toolcalls) and the reflections. A
workflow lists the worker's tools and rules once, plans the thinking (levels), and hands all to
`Turn.begin`. Then it asks `Turn.decide` again and again, and does what the decision names next:

- `ask`: `turn.guidance`, `turn.messages` and the tools go to the activity that asks the model,
  with tools or, where it has no tool calling, for one object; its `StepReply` goes to
  `Turn.replied`.
- `call_tools`: for each of `turn.calls.waves()` in order: `admit` each call, check the arguments of
  those that still wait against the schema (`finish` as `invalid`), `judge` them, wait for a person
  where one is `asking` (`budget.begin_wait`, `permit`, `budget.end_wait`), run those that wait side
  by side, each for `budget.tool_seconds` (None: `not_run`), and `finish` each.
- `reflect`: `Turn.begin_reflection` returns the call's time-out, or None where a stub stands; the
  call has `midturn.SYSTEM` and `turn.reflection_prompt`; then `Turn.reflected` (None: it failed).
- `compact`: a call with `turn.summary_prompt`, then `Turn.compacted`.

A decision that stops ends it: `Turn.result` (result), shown by `sheet`.
"""
