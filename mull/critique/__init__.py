"""Evaluations, guardrails, panels, drafts, and the revision rule."""
