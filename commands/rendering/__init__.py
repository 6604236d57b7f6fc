"""Runs in the terminal: one line for each step while they go on, then the result and what it is.

Everything is built of `Text`, never of rich's markup, so that `[red]` in an answer stays what it
is. Colour only ever repeats what a word says.
"""
