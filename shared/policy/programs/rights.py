"""Programs that change who may do what with files, and whose they are."""

import re

from shared.policy import secrets
from shared.policy.call import Call, Handler
from shared.policy.paths import Place
from shared.policy.words import Word

_OWN = re.compile(r"(?!root\b|0\b)[a-z_][\w-]*(:(?!root\b|0\b)[\w-]*)?$|:[a-z_][\w-]*$")
"""Another user than root: whoever is not root can give a file to nobody but himself."""


def judge_chmod(call: Call) -> None:
    """Rights of files: everybody's, nobody's, or those of another user."""
    found = call.options("reference")
    operands = found.operands
    first = next((word.text for word in call.args if re.fullmatch(r"-[rwxXst]+", word.text)), "")
    mode = first or (operands[0].text if operands else "")
    files = operands if first and not found.has("reference") else operands[1:]
    deep = found.has("R recursive")
    if re.search(r"[ugoa]*[+=][rwxX]*s", mode) or re.fullmatch(r"0?[2467]\d{3}", mode):
        call.find("privilege.raise")
    if re.fullmatch(r"0?\d?\d\d[2367]|0?0{1,3}", mode) or re.search(
        r"(^|,)[ugo]*[oa][ugo]*[+=]\w*w|(^|,)[+]\w*w", mode
    ):
        call.find("write.permissions")
    if deep and re.match(r"(a|ugo)?-|0?0\d\d$", mode):
        call.find("write.permissions")
    for word in files:
        _judge_changed(call, word, deep)


def _judge_changed(call: Call, word: Word, deep: bool) -> None:
    where = call.place(word)
    if where in {Place.SYSTEM, Place.HOME, Place.ELSEWHERE, Place.DEVICE, Place.KERNEL}:
        call.find(
            "write.system" if where is not Place.ELSEWHERE else "write.outside-workspace",
            call.path(word) or "",
        )
    elif where is Place.UNKNOWN and deep:
        call.find("write.unknown", word.text)
    elif where is Place.WORKSPACE and (
        secrets.is_repository(call.path(word) or "") or call.shell.is_guarded(call.path(word) or "")
    ):
        call.find("guard.tamper", call.path(word) or "")
    elif where is Place.WORKSPACE and secrets.may_guard(call.path(word) or ""):
        call.find("guard.file", call.path(word) or "")


def judge_chown(call: Call) -> None:
    """Whose a file is."""
    found = call.options("from reference")
    own = found.operands[:1] and _OWN.match(found.operands[0].text) is not None
    if call.name not in {"chown", "chgrp"} or found.has("R recursive") or not own:
        call.find("write.permissions")
    for word in found.operands[1:]:
        _judge_changed(call, word, found.has("R recursive"))
    if any(call.place(word) in {Place.SYSTEM, Place.HOME} for word in found.operands[1:]):
        call.find("privilege.account")


PROGRAMS: dict[str, Handler] = {
    "chmod": judge_chmod,
    **dict.fromkeys("chown chgrp setfacl chattr chflags".split(), judge_chown),
}
