"""Choosing a configuration by measuring."""

from tilewright.compiler.tile_tune import Measurement, TuningResult, exhaustive_search

__all__ = ["Measurement", "TuningResult", "exhaustive_search"]
