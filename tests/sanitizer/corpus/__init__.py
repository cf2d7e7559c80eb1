"""Planted faults and their corrected twins, one file per theme; `case.CASES` is the table."""
