"""Python source parsed without running it."""

import ast
import threading
import warnings

_quiet = threading.Lock()


def parse_module(text: str) -> ast.Module:
    """The syntax tree; raises ValueError if this Python cannot parse ``text``.

    Warnings of the parser are ignored. Warning filters are global to the process, hence the lock.
    """
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(str(error) or "nested too deeply") from None
