"""Candidates for policies from policy-free attempts (FIRE, derivation)."""
