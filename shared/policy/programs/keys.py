"""Programs that keep and use keys: what shows no secret passes."""

from shared.policy.call import Call, Handler
from shared.policy.words import Word


def judge_gpg(call: Call) -> None:
    """Signatures may be checked; keys are left alone."""
    found = call.options("o output r recipient u keyserver homedir")
    if found.has("verify version print-md help list-keys k fingerprint list-public-keys dearmor"):
        for word in found.operands:
            call.read(word)
        return
    call.find("secret.store")


def judge_agent(call: Call) -> None:
    """Which keys ssh's agent holds may be listed; keys are not added or taken."""
    if [word.text for word in call.args] not in (["-l"], ["-V"]):
        call.find("secret.store")


def judge_sshkeys(call: Call) -> None:
    """Fingerprints are shown; keys are not made."""
    found = call.options("f F t b N C m E")
    if (found.has("l") and not found.has("t")) or call.args[:1] == [Word("-F")]:
        return
    call.find("secret.store")


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys("gpg gpg2".split(), judge_gpg),
    "ssh-keygen": judge_sshkeys,
    "ssh-add": judge_agent,
}
