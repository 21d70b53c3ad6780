"""Text without control characters, which could steer a terminal."""


def clean(text: str) -> str:
    """``text`` on one line without control characters, which could steer a terminal."""
    return " ".join(clean_block(text).split())


def clean_block(text: str) -> str:
    """``text`` with its lines, without control characters."""
    return "".join(map(_printable, text.replace("\r\n", "\n").expandtabs(4)))


def escape_invisible(text: str) -> str:
    """``text`` with its lines; control and other invisible characters as their code points."""
    shown = (each if each.isprintable() or each == "\n" else f"\\u{{{ord(each):x}}}" for each in text)
    return "".join(shown)


def _printable(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    return " " if character.isspace() else ""
