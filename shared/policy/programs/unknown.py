"""Programs the policy does not know."""

import re
from typing import TYPE_CHECKING

from shared.policy.words import Word

if TYPE_CHECKING:
    from shared.policy.call import Call

_PLAIN = re.compile(r"[a-z][a-z_-]*").fullmatch
_ACTS = re.compile(
    r"(^|[_-])(re|un|de|dis|over)?(delet|destroy|remov|purg|drop|kill|wip|format|eras|flush|prun"
    r"|terminat|exec|shell|sudo|root|passw|secret|token|cred|key|install|deploy|publish|apply|run"
    r"|start|stop|reset|abl|enabl"
    r"|clear|nuk|shred|writ|halt|boot|shutdown|off|down|up|mount|inject|exploit|attack|payload|listen"
    r"|connect|bind|serv|send|upload|download|fetch|clon|encrypt|decrypt|dump|load|eval|login|user"
    r"|admin|all|forc|bash|sh|zsh|python|perl|spawn|daemon|disk|devic|network|firewall|hack|evil|mal"
    r"|malwar|virus|backdoor|rat|miner|mine|bomb|crypt|leak|exfil|spy|scan|crack|dos|flood|fork|stress"
    r"|hook|grant|revok|chmod|chown|tamper|poison|clean|fresh|undo|revert|rollback|roll|downgrad|upgrad"
    r"|drain|evict|detach|trash|expir|overwrit|rewrit|truncat|prod|production|unlink|vacuum"
    r"|rotat|cancel|abort|suspend|ban|merg|push|pay|infect|sweep|hijack|obliterat|nuk"
    r"|transfer|mov|mv|rm|migrat|restor|releas|ship|invok|trigger|schedul|cron|regist"
    r"|unregist|policy|polkit|guard|audit|jail|sandbox|seccomp|approv|trust|allow|permit|bypass|skip"
    r"|silenc|mut|freez|panic|crash|kernel|bios"
    r"|flash|partition|raid|volum|snapshot|backup|cluster|node|pod|instanc|bucket|databas|db|tabl|schema"
    r"|tunnel|proxy|expos|sniff|keylog|screenshot|clipboard|broadcast|escalat|privileg)"
    r"(e|s|es|ed|er|ing|d|y|able|ion|or|t|ll|te|ation)?($|[_-])"
)
_STANDS_FOR_ANY = re.compile(
    r"-|foo|bar|baz|qux|quux|((my|your|some|the|a|any|other|long)[-_]?)?(command|cmd|prog|program)\d?"
).fullmatch
"""Names under which manuals speak of programs: there are none that are called so."""


def judge_unknown(call: "Call") -> None:
    """Asked after, unless its words are nothing but plain ones: those leave it nothing to reach for."""
    words = [word.text for word in call.args]
    plain = all(_PLAIN(text) and not _ACTS.search(text) for text in [call.name, *words]) and bool(words)
    nobody = bool(_STANDS_FOR_ANY(call.name)) and not words
    if not (plain or nobody) or any(word.hidden or word.odd for word in call.args):
        call.find("unknown.program", call.name)
    position = next((at for at, word in enumerate(call.args) if call.is_program(word.text)), None)
    if position is not None:
        # It may be one more program that runs another.
        call.run(call.args[position:])
    for word in call.args:
        text = word.text.partition("=")[2] if word.text.startswith("-") and "=" in word.text else word.text
        call.read(Word(text, word.glob, word.odd))
        if text.startswith(("/dev/tcp", "/dev/udp")):
            call.find("network.shell")
