"""git's commands on the files of the work tree: which of them throw work away."""

import re

from shared.policy.call import Call
from shared.policy.options import parse_options
from shared.policy.words import Word


def judge_reset(call: Call, words: list[Word]) -> None:
    """Moves a branch; with --hard the files too."""
    if parse_options(words).has("hard", "merge", "keep", "har", "mer"):
        call.find("git.discard")


def judge_clean(call: Call, words: list[Word]) -> None:
    """Deletes what git does not know."""
    found = parse_options(words, "e exclude")
    if found.has("n", "dry-run"):
        return
    call.find("git.discard")
    for word in found.operands:
        call.delete(word, deep=True)


def judge_checkout(call: Call, words: list[Word]) -> None:
    """Another branch, or files as they were."""
    found = parse_options(words, "b B orphan t0 conflict pathspec-from-file")
    texts = [word.text for word in words]
    if (
        found.has("p", "patch", "f", "force", "B", "ours", "theirs", "m", "pathspec-from-file")
        or "--" in texts
        or (
            not found.has("b", "orphan", "d", "detach", "t", "track")
            and (len(found.operands) > 1 or any(_is_file(word.text) for word in found.operands))
        )
    ):
        call.find("git.discard")


def _is_file(text: str) -> bool:
    """Whether a word is a file rather than a branch: ``.``, ``src/``, ``a.py``, ``*.py``."""
    return bool(
        text in {".", ":/", "*"} or text.startswith(("./", "../", ":")) or text.endswith("/") or "*" in text
    ) or bool(
        re.search(
            r"(?<!\d)\.(py|js|ts|tsx|jsx|md|txt|json|ya?ml|toml|c|h|cpp|go|rs|java|rb|sh|html|css"
            r"|cfg|ini|lock"
            r"|xml|sql)$",
            text,
        )
    )


def judge_switch(call: Call, words: list[Word]) -> None:
    """Another branch."""
    if parse_options(words, "c C orphan").has("f", "force", "discard-changes", "C", "m", "merge"):
        call.find("git.discard")


def judge_restore(call: Call, words: list[Word]) -> None:
    """Files as they were."""
    found = parse_options(words, "s source")
    if not found.has("S", "staged", "stage") or found.has("W", "worktree"):
        call.find("git.discard")


def judge_stash(call: Call, words: list[Word]) -> None:
    """Changes put aside, and thrown away."""
    if words and words[0].text in {"drop", "clear"}:
        call.find("git.discard")


def judge_rm(call: Call, words: list[Word]) -> None:
    """Deletes files."""
    found = parse_options(words)
    if found.has("cached", "n", "dry-run"):
        return
    if found.has("r", "f", "force"):
        call.find("git.discard")
    for word in found.operands:
        call.delete(word)


def judge_mv(call: Call, words: list[Word]) -> None:
    """Renames files."""
    if parse_options(words).has("f", "force"):
        call.find("git.discard")


def judge_worktree(call: Call, words: list[Word]) -> None:
    """Further folders of the repository."""
    found = parse_options(words, "b B reason")
    if words and words[0].text == "remove" and found.has("f", "force"):
        call.find("git.discard")
    for word in found.operands[1:2]:
        if words[0].text in {"add", "move"}:
            call.write(word, gently=True)


def judge_add(call: Call, words: list[Word]) -> None:
    """Notes changes."""
    for word in parse_options(words, "chmod pathspec-from-file").operands:
        call.read(word)


def judge_am(call: Call, words: list[Word]) -> None:
    """Applies patches."""
    found = parse_options(words, "p C directory exclude include whitespace")
    for word in found.operands:
        call.read(word)
    if found.has("R", "reverse"):
        call.find("git.discard")
    if found.has("unsafe-paths"):
        call.find("write.unpack")
