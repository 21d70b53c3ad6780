"""Texts that are too long for where they go."""


def excerpt(text: str, limit: int) -> str:
    """``text``, or where it has more than ``limit`` characters its two ends, with what is missing counted."""
    if len(text) <= limit:
        return text
    half = max(0, limit - 50) // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out:,} characters left out ...]\n{text[len(text) - half :]}"
