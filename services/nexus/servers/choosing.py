"""Which tool of the servers a message is for, by its words and the tool's name, description and schema."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from services.nexus.servers.filling import Filled, Filling, read_parameters
from services.nexus.servers.reading import PARTICLES, Known, Said, name_stems, split_name, stems_of
from shared.language.sayings import read_sayings
from shared.language.utterance import Act
from shared.mcp.pins import Tool
from shared.text.prose import stem_term

WAYS = read_sayings(__file__, "choosing")

LEAST_NAME = 0.5  # How much of a tool's name has to be said, the rare words counting more
LEAST_NEAR = 0.35  # The same where the message names a thing that there is
LEAST_SAID = 0.7  # The same of one for which the desk would start a goal, or ask memory
LEAST_SURE = 0.9  # The same of a tool that misses something
LEAST_EXPLAINED = 0.75  # How much of a message a tool that reads has to explain
LEAST_ASKED = 0.3  # The same of a tool that is said beyond doubt, and of which something is asked
SURE_DESK = 0.8  # How sure the desk is of a message that has to name something to be for a server
CLOSE = 0.08  # How much less the next tool may be like the message for the desk to ask which is meant
TAKEN = 0.7  # What a word of a name counts that is said of an argument, or known of it
COMMON = 0.6  # The share of a server's tools whose names have a word that says nothing of one
QUOTED = re.compile(r"(?<!\w)'([^']{2,40})'(?!\w)")
STATES = frozenset(map(stem_term, ("status", "state", "overview", "condition")))


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as an agent has it: the action's name, and whether a call waits for a person."""

    action: str
    server: str
    tool: Tool
    assignee: str
    asks: bool
    program: str = ""

    @property
    def reads(self) -> bool:
        """Whether a question may be for it; a call may still wait."""
        return self.is_named_reading or not self.asks

    @property
    def is_named_reading(self) -> bool:
        """Whether it says that it reads, or is named as what does."""
        return self.tool.is_read_only or bool(WAYS["reads"].match(self.tool.name))


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, how much of its name is said, how much of the message it explains, and its arguments.

    ``said`` is how many words of its name and description are in the message, which ``begins`` with one of
    its name, or has the thing that it is about first, may name the server, and may ask how things are, which
    the tool tells.
    """

    offered: Offered
    name: float
    explained: float
    filled: Filled
    unexplained: tuple[str, ...] = ()
    said: int = 0
    has_word: bool = False
    """Whether a word of its name is in the message that is no part of an argument."""
    begins: bool = False
    thing_first: bool = False
    names_server: bool = False
    tells_state: bool = False

    @property
    def mark(self) -> float:
        """By which tools are compared."""
        lacking = 0.25 * len(self.filled.missing)
        return self.name + self.explained + 0.1 * min(len(self.filled.params), 4) - lacking


class Chooser:
    """The tools that there are, and their words."""

    def __init__(self, offered: Sequence[Offered]) -> None:
        self.offered = [each for each in offered if each.tool.kind == "tool"]
        self._servers: dict[str, frozenset[str]] = {}
        self._names: dict[str, list[str]] = {}
        self._fields: dict[str, frozenset[str]] = {}
        for server in {each.server for each in self.offered}:
            self._read_server(server, [each for each in self.offered if each.server == server])
        counts = Counter(word for words in self._names.values() for word in set(words))
        self._weights = {word: math.log(1 + len(self._names) / counts[word]) for word in counts}
        told = Counter(word for each in self.offered for word in set(stems_of(each.tool.description)))
        few = max(3, len(self.offered) // 12)
        self._rare = frozenset(word for word, number in told.items() if number <= few)

    def _read_server(self, server: str, tools: Sequence[Offered]) -> None:
        """The words of the server, and those of its tools' names that the others have not."""
        counts = Counter(word for each in tools for word in set(split_name(each.tool.name)))
        common = {word for word, number in counts.items() if len(tools) > 2 and number >= COMMON * len(tools)}
        named = {word for each in tools for word in split_name(f"{each.server} {each.program}")}
        self._servers[server] = frozenset(common | named) - {"server", "mcp"}
        self._fields[server] = frozenset(
            name for each in tools for name in each.tool.schema.get("properties", {})
        )
        for each in tools:
            words = split_name(each.tool.name)
            self._names[each.action] = [word for word in words if word not in common] or words

    def rank(self, said: Said, known: Mapping[str, Known]) -> list[Choice]:
        """The tools, the best first, with the arguments that the message gives them."""
        offered = [each for each in self.offered if each.reads or not said.asks]
        found = [self._judge(each, said, known.get(each.server, ())) for each in offered]
        return sorted(found, key=lambda choice: -choice.mark)

    def _judge(self, offered: Offered, said: Said, known: Known) -> Choice:
        tool, tokens = offered.tool, said.tokens
        names, servers = self._names[offered.action], self._servers[offered.server]
        about = frozenset(stems_of(tool.description))
        parameters = read_parameters(tool.schema)
        overwrites = tool.annotations.get("destructiveHint") is True and len(parameters) > 1
        spoken = frozenset({*names, *servers, *(about & self._rare)})
        filling = Filling(
            parameters,
            said,
            known,
            frozenset(names),
            spoken,
            fields=self._fields[offered.server],
            changes=not offered.reads,
            overwrites=overwrites,
        )
        filled = filling.fill()
        free = [token for at, token in enumerate(tokens) if token.kind == "word" and at not in filled.used]
        words = {token.stem for token in free if token.stem not in PARTICLES} | said.particles
        taken = {tokens[at].stem for at in filled.used} | filled.implied
        heard = {token.stem for token in free if token.counts}
        near = (heard | (STATES if heard & STATES else set())) & about & self._rare - {*names}
        score = self._weigh(offered, words, taken)
        if filled.implied and (self._kinds(offered, known) & {*names}) - filled.implied - words:
            score = 0.0  # a light is meant to be set, and the thing that is named is none
        is_whole = score >= 1.0
        if near:  # what its description names, if its name is not said more than if it is
            score = min(1.0, score + 0.2 * min(2, len(near)) + (0.0 if words & {*names} else 0.2))
            quoted = {stem for each in QUOTED.findall(tool.description) for stem in stems_of(each)}
            score = min(1.0, score + (0.1 if near & quoted else 0.0))  # "such as 'lock'" is said by people
        told = spoken | about | {word for each in parameters for word in split_name(each.name)}
        if said.asks:  # "is the door locked?"
            told |= {
                stem
                for each in known
                for values in each.values()
                for one in values
                for stem in name_stems(one)
            }
        told |= STATES if near & STATES else frozenset()
        counted = [(at, token) for at, token in enumerate(tokens) if token.counts or at in filled.used]
        rest = tuple(token.text for at, token in counted if at not in filled.used and token.stem not in told)
        return Choice(
            offered=offered,
            name=score - 0.1 * ("deprecated" in tool.description.lower()),
            explained=1 - len(rest) / len(counted) if counted else 0.0,
            filled=filled,
            unexplained=rest,
            thing_first=bool(tokens) and 0 in filled.used,
            said=max(len(names) if is_whole else 0, len(heard & {*names}) + len(near)),
            has_word=bool(words & {*names} - PARTICLES),
            begins=bool(tokens) and tokens[0].stem in names,
            names_server=bool(words & servers),
            tells_state=bool(near & STATES),
        )

    def _weigh(self, offered: Offered, words: Collection[str], taken: Collection[str]) -> float:
        """How much of a tool's name is among ``words``; less counts what is said of an argument."""
        names = self._names[offered.action]
        marks = {word: 1.0 if word in words else TAKEN if word in taken else 0.0 for word in names}
        total = sum(self._weights[word] for word in names)
        return sum(self._weights[word] * marks[word] for word in names) / total

    def _kinds(self, offered: Offered, known: Known) -> frozenset[str]:
        """The words by which the server's tools find things: light, kitchen."""
        values = (one.get(field, ()) for field in self._fields[offered.server] for one in known)
        return frozenset(stem for each in values for value in each for stem in name_stems(value))


def is_meant(choice: Choice, said: Said) -> bool:
    """Whether the message is for the tool: it says what the tool does, and little that does not belong to it.

    What changes something has to explain every word but the verb; what is missing is asked for only where
    the tool is said beyond doubt.
    """
    filled, changes = choice.filled, not choice.offered.reads
    if said.act is Act.STATEMENT and not (choice.begins and choice.name >= LEAST_SURE):
        return False
    if changes and WAYS["sets"].search(choice.offered.tool.name) and filled.params and not filled.sets:
        return False
    has_verb = said.act is Act.REQUEST and filled.named and choice.name >= LEAST_NAME and not choice.has_word
    rest = choice.unexplained[1:] if has_verb and choice.unexplained[:1] == said.first else choice.unexplained
    is_sure = choice.name >= LEAST_SURE and (choice.said > 1 or choice.names_server)
    least = LEAST_ASKED if filled.missing and is_sure else LEAST_EXPLAINED
    if rest if changes and not (filled.typed or filled.missing) else choice.explained < least:
        return False
    if choice.names_server and choice.tells_state and not filled.missing and not rest:
        return True
    if changes and not filled.params and choice.offered.tool.schema.get("properties") and choice.said < 2:
        return False  # no thing is named: nothing is done to all
    if filled.missing and not is_sure:
        return False
    if choice.name >= LEAST_NAME and (choice.said > 1 or has_value(choice)):
        return True
    if choice.name >= LEAST_SURE and choice.begins and filled.params:
        return True
    is_said = choice.name >= LEAST_NEAR and (choice.said or choice.thing_first)
    return bool(filled.named and (said.asks or is_said))


def has_value(choice: Choice) -> bool:
    """Whether the message names something that is the tool's or its server's alone."""
    return bool(choice.filled.typed or choice.filled.named or choice.names_server)


def is_plain(choice: Choice) -> bool:
    """Whether the tool is said plainly enough to be no goal, and no question to memory."""
    begun = choice.begins and choice.name >= LEAST_SURE and bool(choice.filled.params)
    return begun or (choice.name >= LEAST_SAID and choice.said > 1)


def choose(choices: Sequence[Choice], said: Said, *, sure: float, is_general: bool) -> list[Choice]:
    """Those that the message may be for, the best first; none if the desk itself is ``sure`` enough of it.

    One that is alone is meant, of several it is asked which. What the desk would do ``is_general`` if it is
    anything that could be asked for, such as a goal.
    """
    if said.act not in (Act.REQUEST, Act.QUESTION, Act.STATEMENT):
        return []
    meant = [
        each
        for each in choices
        if is_meant(each, said) and (sure < SURE_DESK or has_value(each) or (is_general and is_plain(each)))
    ]
    return [each for each in meant if meant[0].mark - each.mark < CLOSE]
