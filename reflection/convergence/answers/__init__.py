"""Answers: how they are asked for, found in a reply, and brought to the form in which they vote."""
