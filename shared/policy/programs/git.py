"""git: what is only looked at, what can be brought back, and what cannot."""

from shared.policy.call import Call, Handler
from shared.policy.options import parse_options
from shared.policy.paths import Place
from shared.policy.programs.git_commands import COMMANDS, judge_setting
from shared.policy.programs.rows import HARMLESS, Row, Step, always, first, row
from shared.policy.words import Word

_SHOWS = frozenset(
    "status log diff show blame annotate shortlog describe rev-parse rev-list ls-files ls-tree ls-remote "
    "cat-file name-rev grep whatchanged merge-base count-objects fsck var version help show-ref for-each-ref "
    "cherry range-diff diff-tree diff-index diff-files check-ignore check-attr verify-commit verify-tag "
    "get-tar-commit-id check-mailmap stripspace column interpret-trailers show-branch patch-id hash-object "
    "mktree merge-tree request-pull bugreport diagnose lfs-ls show-index unpack-file verify-pack".split()
)
_CHANGES = frozenset(
    "add commit mv init merge cherry-pick revert am apply notes fetch pull clone rebase bisect format-patch "
    "archive bundle rerere sparse-checkout maintenance write-tree read-tree update-index commit-tree "
    "commit-graph pack-refs repack mergetool difftool lfs flow submodule subtree citool".split()
)
_GLOBAL = "C c git-dir work-tree namespace exec-path super-prefix config-env attr-source list-cmds"


def judge_git(call: Call) -> None:
    """One of git's own commands, with its options before it."""
    found = parse_options(call.args, _GLOBAL, permute=False)
    for word in found.of("c config-env"):
        judge_setting(call, word.text.partition("=")[0], word.text.partition("=")[2])
    if found.has("exec-path") and found.of("exec-path"):
        call.find("git.executes")
    for word in [*found.of("C"), *found.of("git-dir"), *found.of("work-tree")]:
        call.stat(word)
    for word in found.of("git-dir"):
        if call.place(word) is not Place.WORKSPACE:
            call.find("git.executes")
    scope = call.scope
    if found.values:
        call.scope = scope.branch()
    for word in [*found.of("C"), *found.of("work-tree")]:
        call.scope.cwd = call.path(word)
    if not found.operands:
        return
    name, words = found.operands[0], found.operands[1:]
    if name.hidden or not name.known:
        call.find("unclear.command")
        return
    handler = COMMANDS.get(name.text)
    if isinstance(handler, Row):
        handler.judge(call, words)
    elif handler is not None:
        handler(call, words)
    elif name.text not in _SHOWS and name.text not in _CHANGES:
        call.find("unknown.use")
    _judge_general(call, name.text, words)


def _judge_general(call: Call, name: str, words: list[Word]) -> None:
    """What is judged for all of git's commands: other programs, paths outside, other work trees."""
    outside = call.place(Word(".")) not in {Place.WORKSPACE, Place.SCRATCH, Place.UNKNOWN}
    if outside and name not in _SHOWS:
        call.find("destroy.outside-workspace", call.scope.cwd or "")
    for word in words:
        text = word.text
        option, _, value = text.partition("=")
        if option in {"--ext-diff", "--textconv", "--tool"}:
            continue
        if option in {"--upload-pack", "--receive-pack", "--exec", "--extcmd", "--open-files-in-pager"}:
            call.find("git.executes")
            if value:
                call.script(value)
        elif option == "--no-verify":
            call.find("git.config")
        elif option == "--template":
            call.find("git.executes")
        elif option == "--output" and value:
            call.write(Word(value))
        elif (name == "grep" and text.startswith("-O")) or "ext::" in (text[:5], value[:5]):
            call.find("git.executes")
        path = value if value and option.startswith("-") else text
        if path.startswith(("/", "~", "..")) and name not in {"clone", "init", "worktree", "check-ignore"}:
            call.read(Word(path, word.glob, word.obfuscated, word.hidden))
    if name in {"archive", "format-patch", "bundle"}:
        found = parse_options(words, "o output output-directory remote format prefix")
        created = found.operands[1:2] if name == "bundle" else []
        for word in [*found.of("o output output-directory"), *created]:
            call.write(word, create=name == "format-patch")


_OTHER = row(
    "",
    first(
        Step(
            words="|status|log|diff|info|list|ls|cat|annotate|blame|help|summary|branch|root|id|st|add|ci|commit"
            "|show|bookmarks"
        ),
        Step("git.discard"),
    ),
)
"""Other version control: looking is everyday."""


PROGRAMS: dict[str, Handler] = {
    "git": judge_git,
    "hg svn bzr fossil jj p4 cvs darcs": _OTHER,
    "tig": HARMLESS,
    "git-lfs": always("git.remote"),
    "bfg git-filter-repo": always("git.history"),
}
