"""The rules, each a stable id with its verdict and its sentence, and the ruling on one command."""

import msgspec

from shared.contracts import CommandVerdict

_ALLOW, _ASK, _DENY = CommandVerdict.ALLOW, CommandVerdict.ASK, CommandVerdict.DENY


class Rule(msgspec.Struct, frozen=True):
    """``verdict`` if the rule applies; ``why`` is its sentence, with ``{}`` for what it found."""

    verdict: CommandVerdict
    why: str


RULES = {
    "everyday": Rule(_ALLOW, "Nothing in it reaches beyond everyday work in the workspace."),
    "nothing": Rule(_ALLOW, "There is nothing to run."),
    # What cannot be judged
    "unclear.syntax": Rule(_ASK, "It cannot be read as a shell command, so what it does is not known."),
    "unclear.size": Rule(_ASK, "It is too long or too deeply nested to be judged: {}."),
    "unclear.fault": Rule(_ASK, "The policy itself failed on it."),
    "unclear.name": Rule(_ASK, "The name of the program is hidden in {}, so what runs is not known."),
    "unclear.spelling": Rule(_ASK, "{} is spelled so that it hides what is meant."),
    "unclear.input": Rule(_DENY, "{} executes its standard input, which is not known in advance."),
    "unclear.code": Rule(_ASK, "The code given to {} may do more than compute and print."),
    "unclear.eval": Rule(_DENY, "{} would run text that is put together only when it runs."),
    "unclear.command": Rule(_ASK, "{} would run a command that is known only when it runs."),
    "unknown.program": Rule(_ASK, "What {} does is not known to the policy."),
    "unknown.use": Rule(_ASK, "What {} does when used like this is not known to the policy."),
    # Files
    "destroy.outside-workspace": Rule(_DENY, "{} lies outside the workspace and would be destroyed."),
    "destroy.workspace": Rule(_ASK, "{} holds work of the workspace and would be destroyed."),
    "destroy.unknown": Rule(_ASK, "What is deleted is known only when it runs: {}."),
    "destroy.device": Rule(_DENY, "{} would overwrite or erase a disk, a device or a file system."),
    "write.system": Rule(_DENY, "{} belongs to the system and would be changed."),
    "write.outside-workspace": Rule(_ASK, "{} lies outside the workspace and would be written."),
    "write.unknown": Rule(_ASK, "What is written is known only when it runs: {}."),
    "write.repository": Rule(_ASK, "{} is part of what git itself keeps and is not to be edited by hand."),
    "write.link": Rule(_ASK, "A link to {} would lead out of the workspace."),
    "write.permissions": Rule(_ASK, "{} would open files to everybody or take them from their owner."),
    "write.unpack": Rule(_ASK, "{} may write outside the folder it unpacks into."),
    "read.system": Rule(_ASK, "{} lies outside the workspace, and its content would be read."),
    "read.everything": Rule(_ASK, "All of {} would be read, whatever secrets it holds."),
    "secret.file": Rule(_DENY, "{} holds credentials or private records."),
    "secret.workspace": Rule(_ASK, "{} looks like a file of credentials."),
    "secret.environment": Rule(_ASK, "{} would show the environment, where credentials are kept."),
    "secret.search": Rule(_ASK, "{} looks for credentials or for ways to more rights."),
    "secret.store": Rule(_DENY, "{} reads, makes or changes credentials."),
    "persist.startup": Rule(
        _DENY, "{} takes effect by itself later, so what is written there outlives the task."
    ),
    "persist.schedule": Rule(_DENY, "{} would have something run later, outside this task."),
    # The system
    "privilege.raise": Rule(_DENY, "{} would run with more rights or leave the jail."),
    "privilege.account": Rule(_DENY, "{} changes accounts, owners or rights of the system."),
    "system.power": Rule(_DENY, "{} would stop the machine."),
    "system.change": Rule(_DENY, "{} changes how the system runs."),
    "system.service": Rule(_ASK, "{} changes a service of the system."),
    "system.network": Rule(_DENY, "{} changes the network or the firewall of the system."),
    "process.kill": Rule(_ASK, "{} may end processes that are not its own."),
    "process.kill-all": Rule(_DENY, "{} would end processes that are not its own."),
    "process.inspect": Rule(_ASK, "{} looks into running processes."),
    "exhaust.fork-bomb": Rule(_DENY, "{} starts more and more programs until the machine stands still."),
    "exhaust.endless": Rule(_DENY, "{} never ends and fills the disk, the memory or the processors."),
    "exhaust.large": Rule(_ASK, "{} may fill the disk, the memory or the processors."),
    "guard.tamper": Rule(_DENY, "{} tampers with what guards or records the work of the agents."),
    "guard.file": Rule(_ASK, "{} may be what guards or records the work of the agents."),
    # The network
    "network.shell": Rule(_DENY, "{} would connect a shell or a raw connection to another machine."),
    "network.send": Rule(_DENY, "{} would send files or data to another machine."),
    "network.fetch": Rule(_ASK, "{} fetches something from the network."),
    "network.private": Rule(_DENY, "{} is an address that gives away credentials or reaches inside."),
    "network.listen": Rule(_DENY, "{} would offer files or a way in to others on the network."),
    "network.remote": Rule(_ASK, "{} works on another machine."),
    "run.download": Rule(_DENY, "{} would run what was just fetched from the network."),
    "run.written": Rule(_ASK, "{} was put there by this very command, and what it does cannot be read."),
    "run.outside": Rule(_ASK, "{} is a program from outside the workspace and the system's folders."),
    "run.renamed": Rule(_DENY, "{} gives a program another name, so that it is not recognised."),
    "run.preload": Rule(_DENY, "{} makes other programs run foreign code."),
    "package.install": Rule(_ASK, "{} installs or runs software that the workspace does not name."),
    "package.foreign": Rule(_DENY, "{} installs software from an address instead of a registry."),
    "package.publish": Rule(_ASK, "{} publishes or withdraws something others can see."),
    "package.system": Rule(_ASK, "{} changes the software of the system."),
    # git
    "git.discard": Rule(_ASK, "{} throws away work that git cannot bring back."),
    "git.history": Rule(_ASK, "{} rewrites or removes history, or what git keeps to bring it back."),
    "git.executes": Rule(_DENY, "{} makes git run a command of its own."),
    "git.config": Rule(_ASK, "{} changes how git behaves beyond this repository, or leaves its checks out."),
    "git.remote": Rule(_ASK, "{} reaches a repository elsewhere or changes where this one goes."),
    # Other people's things
    "container.escape": Rule(_DENY, "{} gives a container access to the whole machine."),
    "container.change": Rule(_ASK, "{} starts, stops or removes containers."),
    "container.destroy": Rule(_DENY, "{} removes containers, images or volumes for good."),
    "cloud.change": Rule(_ASK, "{} may change a service that other people use."),
    "cloud.destroy": Rule(_DENY, "{} destroys something that other people use."),
    "task.effect": Rule(_ASK, "{} names a task that destroys, resets or publishes something."),
    "database.change": Rule(_ASK, "{} may change a database or run programs through it."),
    "database.destroy": Rule(_DENY, "{} destroys data in a database."),
}
"""Every rule by its id."""


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on ``command``, the stable id of the ``rule`` that decided, and why in one sentence."""

    command: str
    verdict: CommandVerdict
    rule: str
    why: str
