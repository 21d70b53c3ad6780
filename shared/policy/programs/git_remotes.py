"""git's commands that reach other repositories."""

import re

from shared.policy.call import Call
from shared.policy.options import parse_options
from shared.policy.programs.fetching import judge_address
from shared.policy.programs.git_settings import judge_setting
from shared.policy.words import Word

_BY_SSH = re.compile(r"(ssh://)?git@[\w-]+(\.[\w-]+)+[:/][\w./-]+").fullmatch
_ADDRESS = re.compile(r"^([a-z+]+://|[\w.-]+@[\w.-]+:|ext::)", re.IGNORECASE)


def judge_push(call: Call, words: list[Word]) -> None:
    """What others get."""
    found = parse_options(words, "o push-option repo receive-pack exec")
    if found.has("n", "dry-run"):
        return
    if found.has(
        "f", "force", "force-with-lease", "force-if-includes", "mirror", "prune", "d", "delete"
    ) or any(word.text.startswith(("+", ":")) for word in found.operands[1:]):
        call.find("git.history")
    elif found.operands and not re.fullmatch(r"[\w.-]+", found.operands[0].text):
        call.find("network.send")
    elif found.has("all", "repo"):
        call.find("git.remote")
    if any(not word.known for word in found.operands[1:]):
        call.find("git.remote")


def judge_remote(call: Call, words: list[Word]) -> None:
    """Where the repository goes."""
    if words and words[0].text in {"add", "set-url", "remove", "rm", "rename", "set-head", "prune", "update"}:
        call.find("git.remote")


def judge_clone(call: Call, words: list[Word]) -> None:
    """A repository fetched."""
    found = parse_options(
        words,
        "b branch c config o origin u upload-pack template reference depth j jobs separate-git-dir filter",
    )
    for word in found.of("c", "config"):
        judge_setting(call, word.text.partition("=")[0], word.text.partition("=")[2])
    if found.has("u", "upload-pack", "template"):
        call.find("git.executes")
    if not found.operands:
        return
    source = found.operands[0].text
    folder = (
        found.operands[1]
        if len(found.operands) > 1
        else Word(re.sub(r"\.git/?$|/$", "", source).rsplit("/", 1)[-1])
    )
    call.write(folder, gently=True)
    if _ADDRESS.match(source):
        if source.startswith("https://"):
            judge_address(call, found.operands[0])
        elif not _BY_SSH(source):
            call.find("git.remote")
            judge_address(call, found.operands[0])
        call.scope.fetched.add(call.path(folder) or "")


def judge_fetch(call: Call, words: list[Word]) -> None:
    """Commits fetched."""
    found = parse_options(words, "upload-pack depth j jobs o s X strategy")
    if found.has("upload-pack"):
        call.find("git.executes")
    if found.operands and _ADDRESS.match(found.operands[0].text):
        call.find("git.remote")
    over = any(re.match(r"\+[^:]*:(?!refs/remotes/)", word.text) for word in found.operands)
    if over or found.has("f", "force", "X"):
        call.find("git.discard")


def judge_submodule(call: Call, words: list[Word]) -> None:
    """Repositories within this one."""
    if words and words[0].text == "foreach":
        rest = [word for word in words[1:] if not word.text.startswith("-")]
        call.script(" ".join(word.text for word in rest))
    elif words and words[0].text in {"add", "set-url"}:
        call.find("git.remote")
    elif words and (words[0].text == "deinit" or parse_options(words).has("f", "force")):
        call.find("git.discard")


def judge_lfs(call: Call, words: list[Word]) -> None:
    """Large files kept elsewhere."""
    if words and words[0].text in {"prune", "uninstall", "migrate", "push", "install"}:
        call.find("git.history")
