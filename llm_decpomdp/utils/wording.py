"""Human-readable numbers and durations."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Format seconds, such as 45.0 s, 12 min 30 s or 3 h 20 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def number(value: float, *, sign: bool = False) -> str:
    """Format a number with two decimals and a real minus sign."""
    text = f"{value:+.2f}" if sign else f"{value:.2f}"
    return text.replace("-0.00", "0.00").replace("+0.00", "0.00").replace("-", "\u2212")
