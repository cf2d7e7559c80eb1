"""The fills can be told apart by colour-blind readers, and black text can be read on them."""

from __future__ import annotations

import itertools
import math

import pytest

from tilewright.viz.palette import ALARM, BLANK, FILLS, SHARED, fill

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
VISION = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def luminance(rgb: list[float]) -> float:
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]


def lab(rgb: list[float]) -> tuple[float, float, float]:
    r, g, b = (min(max(p, 0.0), 1.0) for p in rgb)
    x = (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047
    y = luminance([r, g, b])
    z = (0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883

    def f(t: float) -> float:
        return t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116

    return 116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))


def seen(colour: str, vision: str) -> tuple[float, float, float]:
    rgb = linear(colour)
    return lab([sum(a * b for a, b in zip(row, rgb, strict=True)) for row in VISION[vision]])


@pytest.mark.parametrize("vision", VISION)
def test_fills_differ(vision: str) -> None:
    for a, b in itertools.combinations([*FILLS, BLANK], 2):
        assert math.dist(seen(a, vision), seen(b, vision)) > 21, (a, b)
    for a in FILLS:
        assert math.dist(seen(a, vision), seen(SHARED, vision)) > 13, a


@pytest.mark.parametrize("colour", [*FILLS, BLANK, SHARED])
def test_black_text_is_readable(colour: str) -> None:
    assert (luminance(linear(colour)) + 0.05) / 0.05 >= 7


def test_alarm_frames_stand_out_of_every_fill() -> None:
    for colour in [*FILLS, BLANK]:
        high, low = sorted([luminance(linear(colour)), luminance(linear(ALARM))], reverse=True)
        assert (high + 0.05) / (low + 0.05) > 2.4, colour


def test_fill_repeats() -> None:
    assert [fill(i) for i in range(8)] == list(FILLS)
    assert fill(13) == FILLS[5]
    assert fill(-1) == FILLS[7]
