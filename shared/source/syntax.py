"""Python source parsed without running it."""

import ast
import threading
import warnings

_quiet = threading.Lock()


def parse_module(text: str) -> ast.Module:
    """The syntax tree; raises ValueError where this Python cannot parse ``text``.

    What the parser warns about is the author's business, not the reader's. The filters of warnings
    belong to the whole process, hence one at a time.
    """
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(str(error) or "nested too deeply") from None
