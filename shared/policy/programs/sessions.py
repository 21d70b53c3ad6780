"""Editors, pagers of manuals, terminals: programs for a person, whose own commands can run others."""

import re

from shared.policy.call import Call, Handler
from shared.policy.words import Word


def judge_script(call: Call) -> None:
    """script records a terminal, and runs a command with -c."""
    for word in call.options("c command t T I O B E").of("c command"):
        call.script(word.text)
    call.find("unknown.use")


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
            call.find("unclear.command")
            call.script(match[2])
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


def judge_man(call: Call) -> None:
    """Manuals; a pager of one's own runs."""
    found = call.options("P pager H html C M m L l s S R E p preprocessor")
    if found.has("P pager H html C"):
        call.find("unclear.command")
        call.apply(found, "script P pager H html")
    call.apply(found, "read l")


PROGRAMS: dict[str, Handler] = {
    "script": judge_script,
    **dict.fromkeys("screen tmux".split(), judge_multiplexer),
    **dict.fromkeys(
        "vi vim nvim vimdiff nvimdiff gvimdiff ex view rvim gvim ed red nano pico micro joe jed "
        "mcedit helix hx kak emacsclient".split(),
        judge_editor,
    ),
    "man": judge_man,
}
