"""Programs that edit texts or show them to a person, whose own commands can run others."""

import re

from shared.policy.call import Call, Handler
from shared.policy.expansion import UNKNOWN
from shared.policy.paths import Place
from shared.policy.programs.rows import Step, row
from shared.policy.scope import Stream
from shared.policy.words import Word

_SED_RUN = re.compile(r"(?:^|[;\n{}]|[\d$]\s*|/[IM]*\s*)\s*e(\s+\S|\s*$|;)")
_EMPTIES = re.compile(r"(1,\$|/\.?\*?/)?d|s(.)\^?\.\*\$?\2\2g?").fullmatch
"""What leaves a file without its lines, or its lines without their text."""
_SED_SUBSTITUTE = re.compile(
    r"s(?P<d>[/|#,@:!%_])(?:\\.|(?!(?P=d)).)*(?P=d)(?:\\.|(?!(?P=d)).)*(?P=d)(?P<flags>[\w]*)", re.DOTALL
)


def judge_sed(call: Call) -> Stream | None:
    """sed prints what it edits, or writes it; its own language can write files and run commands."""
    found = call.options("e f l expression file line-length i0")
    scripts = [word.text for word in found.of("e expression")]
    for word in found.of("f file"):
        given = (
            call.stdin if word.text in {"-", "/dev/stdin"} else call.scope.files.get(call.path(word) or "")
        )
        if given is not None:
            scripts.append(given.text if given.text is not None else UNKNOWN)
            continue
        if call.place(word) is not Place.WORKSPACE:
            call.find("run.outside", word.text)
        call.read(word)
    files = found.operands
    if not scripts and not found.of("f file"):
        scripts, files = [word.text for word in files[:1]], files[1:]
    inplace = found.has("i in-place") or any(
        flag.startswith(("i", "ni", "Ei", "ri")) and flag != "i" for flag in found.flags
    )
    for script in scripts:
        _judge_sed_script(call, script)
        if inplace and _EMPTIES(script.replace(" ", "")):
            for word in files:
                call.delete(word, deep=True, force=True)
    for word in files:
        if inplace:
            call.write(word)
        else:
            call.query(word)
    quits = any(re.search(r"\d\s*[qQ]|[;{]\s*[qQ]", script) for script in scripts)
    return Stream(None, None, "computed", call.stdin.endless and not files and not quits)


def _judge_sed_script(call: Call, script: str) -> None:
    if UNKNOWN in script and len(script) == 1:
        call.find("unclear.code", "sed")
        return
    for match in _SED_SUBSTITUTE.finditer(script):
        if "e" in match["flags"]:
            call.find("unclear.command")
        if match["flags"].endswith("w"):
            target = script[match.end() :].strip().split("\n")[0]
            call.write(Word(target.split(";")[0].strip() or UNKNOWN))
    rest = _SED_SUBSTITUTE.sub(";", script)
    rest = re.sub(r"/(?:\\.|[^/\n])*/", "/", rest)
    rest = re.sub(r"(?:^|[;\n{}\d$/])\s*[aic]\s*(\\|\s).*", "", rest)
    if _SED_RUN.search(rest):
        call.find("unclear.command")
    for match in re.finditer(r"(?:^|[;\n{}\d$/])\s*([wWrR])\s*([^\s;}]+)", rest):
        if match[1] in "wW":
            call.write(Word(match[2]))
        else:
            call.read(Word(match[2]))


def judge_rename(call: Call) -> None:
    """rename moves many files by a pattern, which is Perl in one of its kinds."""
    found = call.options("e")
    if any(
        re.search(r"system|exec|`|qx|unlink|/e", word.text) for word in [*found.operands[:1], *found.of("e")]
    ):
        call.find("unclear.code", "rename")
    for word in found.operands[1:]:
        if call.place(word) is not Place.UNKNOWN:
            call.write(word)


def judge_multiplexer(call: Call) -> None:
    """screen and tmux leave things running."""
    words = [word.text for word in call.args]
    if any(word in {"ls", "list-sessions", "-ls", "-list", "-V", "-v", "list-windows"} for word in words[:1]):
        return
    call.find("unknown.use")
    rest = [word for word in call.args if " " in word.text]
    for word in rest:
        call.script(word.text)
    if call.name == "screen":
        operands = call.options("S c t s h e", permute=False).operands
        if operands:
            call.run(operands)


def judge_editor(call: Call) -> None:
    """vim, ed, ex, emacs: commands for the editor can run programs."""
    found = call.options("c cmd S u U i w W T")
    texts = [word.text for word in found.of("c cmd")]
    texts += [word.text[1:] for word in found.operands if word.text.startswith("+")]
    if call.stdin.text:
        texts += call.stdin.text.splitlines()
    texts += [part for text in texts for part in text.split("|")[1:]]
    for text in texts:
        if re.match(r"\s*:?\s*set?\s+sh(ell)?=", text):
            call.find("unclear.command")
        match = re.match(
            r"\s*:?\s*[\d,.%$]*\s*(r\s*!|w\s*!|!|silent!?\s*!|term(?:inal)?\s|sh(?:ell)?\b|system\()(.*)",
            text,
        )
        if match:
            call.run_hidden(match[2])
        elif re.search(
            r"system\(|:?py(thon|3)?x?\b|:?lua\b|:?perl\b|:?ruby\b|:?so(urce)?\b|execute|job_start|writefile"
            r"|delete\(|os\.|libcall|!",
            text,
        ):
            call.find("unclear.code", call.name)
        elif target := re.match(r"\s*:?[\d,%.$]*\s*(?:w|wq|x|sav\w*|up\w*|f|e|r)!?\s+([^\s!]\S*)", text):
            call.write(Word(target[1]))
            call.read(Word(target[1]))
    if found.has("S s u U"):
        for word in [*found.of("S u U")]:
            if word.text not in {"NONE", "NORC", "DEFAULTS"}:
                call.find("unclear.code", call.name)
    for word in found.operands:
        if not word.text.startswith("+"):
            call.read(word)
            call.write(word)


PROGRAMS: dict[str, Handler] = {
    "sed gsed": judge_sed,
    "rename prename": judge_rename,
    "script": row("c command t T I O B E", Step(does="script c command"), Step("unknown.use")),
    "screen tmux": judge_multiplexer,
    "vi vim nvim vimdiff nvimdiff gvimdiff ex view rvim gvim ed red nano pico micro joe jed mcedit helix hx "
    "kak emacsclient": judge_editor,
    "man": row(
        "P pager H html C M m L l s S R E p preprocessor",
        Step("unclear.command", has="P pager H html C", does="script P pager H html"),
        Step(does="read l"),
    ),
}
