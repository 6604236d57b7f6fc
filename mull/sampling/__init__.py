"""Sampling until the answers converge: answers, consensus, entropy, stopping rules, waves."""
