"""Programs that read files or their input and print: what their options read, write and run besides."""

import msgspec

from shared.policy import effects
from shared.policy.call import Call, Handler
from shared.policy.scope import Stream


class Reads(msgspec.Struct, frozen=True, gc=False):
    """``valued``: options with a value; of these ``reads``, ``writes``, ``runs`` name files and commands.

    ``skip``: operands at the front that are no files; ``deep``: options that read folders; ``inplace``:
    options that write the operands; ``refuse``: options whose effect is not known; ``last``: the operand from
    which on files are written (-1: none); ``passes``: what comes in goes out, endless where it was; ``ends``:
    it stops by itself, ``bounds``: with one of these options; ``names_only``: it looks at no content;
    ``queries``: it shows parts of what it reads.
    """

    valued: str = ""
    reads: str = ""
    writes: str = ""
    runs: str = ""
    skip: int = 0
    deep: str = ""
    inplace: str = ""
    refuse: str = ""
    last: int = -1
    passes: bool = False
    ends: bool = False
    bounds: str = ""
    names_only: bool = False
    queries: bool = False

    @property
    def options(self) -> str:
        """All options that take a value."""
        return f"{self.valued} {self.reads} {self.writes} {self.runs}"


def reader_of(spec: Reads) -> Handler:
    """The handler of a program that ``spec`` describes."""
    options = spec.options
    reads, writes, runs = spec.reads.split(), spec.writes.split(), spec.runs.split()
    bounds = spec.bounds.split()
    deep, inplace, refuse = spec.deep.split(), spec.inplace.split(), spec.refuse.split()

    def judge(call: Call) -> Stream | None:  # noqa: PLR0912 - one branch a kind
        found = call.options(options)
        for word in found.of(*reads):
            call.read(word)
        for word in found.of(*writes):
            call.write(word)
        for word in found.of(*runs):
            call.find("unclear.command")
            call.script(word.text)
        if refuse and found.has(*refuse):
            call.find("unknown.use")
        files = found.operands[spec.skip :]
        if spec.last >= 0:
            for word in files[spec.last :]:
                call.write(word)
            files = files[: spec.last]
        recursive = bool(deep) and found.has(*deep)
        endless = spec.passes and not files and call.stdin.endless
        if call.stdin.endless and not (files or spec.passes or spec.ends or spec.skip):
            call.find("exhaust.endless")
        for word in files:
            if spec.names_only:
                if call.name not in {"basename", "dirname", "pathchk"}:
                    call.look(word)
                continue
            if spec.queries and not recursive:
                call.query(word)
            else:
                call.read(word, recursive)
            if effects.is_endless(call.scope, word, call.shell.workspace):
                endless = True
                if not spec.passes and not spec.ends:
                    call.find("exhaust.endless")
        if inplace and found.has(*inplace):
            for word in files:
                call.write(word)
        endless = endless and not (bounds and found.has(*bounds))
        return Stream(None, None, "made" if spec.passes else "", endless) if endless or spec.passes else None

    return judge
