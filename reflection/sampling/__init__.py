"""Answers sampled until they agree: votes, stopping rules, waves, replays."""
