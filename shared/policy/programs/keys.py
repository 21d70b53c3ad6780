"""Programs that keep and use keys: what shows no secret passes."""

from shared.policy.call import Call, Handler
from shared.policy.scope import Stream
from shared.policy.words import Word


def judge_gpg(call: Call) -> Stream | None:
    """Signatures may be checked; keys are left alone."""
    found = call.options("o output r recipient u keyserver homedir")
    if found.has(
        "verify",
        "version",
        "print-md",
        "help",
        "list-keys",
        "k",
        "fingerprint",
        "list-public-keys",
        "dearmor",
    ):
        for word in found.operands:
            call.read(word)
        return None
    call.find("secret.store")
    return None


def judge_agent(call: Call) -> Stream | None:
    """Which keys ssh's agent holds may be listed; keys are not added or taken."""
    if [word.text for word in call.args] not in (["-l"], ["-V"]):
        call.find("secret.store")
    return None


def judge_sshkeys(call: Call) -> Stream | None:
    """Fingerprints are shown; keys are not made."""
    found = call.options("f F t b N C m E")
    if (found.has("l") and not found.has("t")) or call.args[:1] == [Word("-F")]:
        return None
    call.find("secret.store")
    return None


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys("gpg gpg2".split(), judge_gpg),
    "ssh-keygen": judge_sshkeys,
    "ssh-add": judge_agent,
}
