"""Environments in which agents act, and the activities of the executor and the evaluator."""
