"""Rewrites of captured IR: one file per pass; `pipeline` is the list."""
