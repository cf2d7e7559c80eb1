"""The command `tilewright`: one verb for each job.

`command` finds the verb, `gemm`, `profile` and `doctor` are the verbs, `arguments` is what their
parsers share.
"""

from tilewright.cli.command import main

__all__ = ["main"]
