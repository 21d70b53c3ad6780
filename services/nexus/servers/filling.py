"""The arguments of a tool from the words of a message, by the tool's schema."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from services.nexus.servers.reading import (
    SMALL,
    Known,
    Said,
    Token,
    find_implied,
    find_spans,
    find_zones,
    split_name,
    stems_of,
    values_of,
)
from shared.language.utterance import Act

_PATHS = re.compile(r"(?i)\b(path|file|director|folder|source|destination)")
_ZONE = re.compile(r"(?i)time_?zone|\btz\b|IANA")
_NAMED = re.compile(
    r"(?i)^(?:(?:named|called|titled|entitled|saying|that|for|about|on|in|to|of|the|an?|some|my)\s+)+"
)
_TAIL = re.compile(r"(?i)(?:\s+(?:to|on|in|of|for|from|with|at|into|by|the|an?|my|please))+$")
_THING = ("name", "entity", "device")
NEAR = 4  # How many words before a number may say what it is of


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments found, which required ones are missing, and which tokens of the message they explain."""

    params: dict[str, Any] = {}
    missing: tuple[str, ...] = ()
    used: frozenset[int] = frozenset()
    named: int = 0
    """How many words of the message are a value that there is."""
    implied: frozenset[str] = frozenset()
    """The stems of what the server tells of these values."""
    sets: bool = False
    """Whether there is an argument that is no thing of the server's."""
    typed: int = 0
    """How many arguments are of a kind that is seen: an address, a path, a number, a time."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter as its schema has it."""

    name: str
    types: frozenset[str]
    choices: tuple[str, ...]
    about: str
    schema: Mapping[str, Any]
    required: bool = False

    @property
    def is_text(self) -> bool:
        """Whether it takes a text, or several."""
        return "string" in self.types or ("array" in self.types and not self.choices)

    @property
    def is_number(self) -> bool:
        """Whether it takes a number."""
        return bool({"number", "integer"} & self.types)

    def wrap(self, values: list[str]) -> Any:
        """``values`` in its form."""
        return values if "array" in self.types else values[0]


def read_parameters(schema: Mapping[str, Any]) -> list[Parameter]:
    """The parameters of a tool, the required ones first."""
    properties = schema.get("properties")
    required = schema.get("required")
    wanted = (
        frozenset(each for each in required if isinstance(each, str))
        if isinstance(required, list)
        else frozenset()
    )
    found = [
        _read_parameter(str(name), each if isinstance(each, dict) else {}, str(name) in wanted)
        for name, each in (properties if isinstance(properties, dict) else {}).items()
    ]
    return sorted(found, key=lambda each: not each.required)


def _read_parameter(name: str, schema: Mapping[str, Any], required: bool) -> Parameter:
    types: set[str] = set()
    choices: list[str] = []
    for each in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if not isinstance(each, dict):
            continue
        kind = each.get("type")
        types.update([kind] if isinstance(kind, str) else kind if isinstance(kind, list) else [])
        items = each.get("items")
        for source in (each, items if isinstance(items, dict) else {}):
            choices += [str(value) for value in source.get("enum", ()) if isinstance(value, str)]
    about = f"{' '.join(re.findall(r'[A-Z]?[a-z]+|[A-Z]+', name))} {schema.get('description', '')}"
    return Parameter(
        name=name,
        types=frozenset(types),
        choices=tuple(choices),
        about=about,
        schema=schema,
        required=required,
    )


class Filling:
    """One tool's parameters, filled from one message."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        said: Said,
        known: Known,
        names: frozenset[str],
        explained: frozenset[str],
        *,
        fields: Collection[str] = (),
        changes: bool = True,
        overwrites: bool = False,
    ) -> None:
        """``names`` are the words of the tool's name, ``explained`` all that the tool and its server say.

        ``fields`` are those by which its server's tools find things; what a tool ``overwrites`` something
        with has to be quoted, or to stand after a colon.
        """
        self._parameters = list(parameters)
        only = parameters[0] if len(parameters) == 1 else None
        if only and only.is_text and not only.choices and not values_of(known, only.name):
            self._parameters = [msgspec.structs.replace(only, required=True)]  # it is nothing without
        self._text, self._tokens, self._zone = said.text, said.tokens, said.zone
        self._said, self._known, self._names, self._explained = said, known, names, explained
        self._fields, self._changes, self._overwrites = fields, changes, overwrites
        self._params: dict[str, Any] = {}
        self._used: set[int] = set()
        self._named = self._typed = 0
        self._implied: frozenset[str] = frozenset()

    def fill(self) -> Filled:
        """The arguments that the message names."""
        self._take_known()
        self._take_zones()
        self._take_typed()
        self._take_numbers()
        self._take_flags()
        self._take_texts()
        for each in self._open():
            if each.required and "default" in each.schema:
                self._params[each.name] = each.schema["default"]
        missing = [each.name for each in self._open() if each.required]
        if self._changes and not self._params and not missing:  # which of the things is not said
            missing = [each.name for each in self._parameters if values_of(self._known, each.name)][:1]
        return Filled(
            params=self._params,
            missing=tuple(missing),
            used=frozenset(self._used),
            named=self._named,
            implied=self._implied,
            typed=self._typed,
            sets=any(not values_of(self._known, name) for name in self._params),
        )

    def _open(self) -> list[Parameter]:
        return [each for each in self._parameters if each.name not in self._params]

    def _put(self, parameter: Parameter, value: Any, span: Iterable[int], *, is_typed: bool = False) -> None:
        self._params[parameter.name] = value
        self._used.update(span)
        self._typed += is_typed

    def _take_known(self) -> None:
        """Values that there are, and choices: the longest first, and of one length what many things have."""
        found: list[tuple[tuple[int, bool, int, int], Parameter, range, str]] = []
        for place, parameter in enumerate(self._parameters):
            there = () if parameter.choices else values_of(self._known, parameter.name)
            for value in (*there, *parameter.choices):
                number = sum(value in values_of([each], parameter.name) for each in self._known)
                for span in find_spans(self._tokens, value):
                    if parameter.choices and all(self._tokens[at].stem in self._names for at in span):
                        continue  # "merge" of "merge the pull request" says what to do
                    order = (-len(span), bool(parameter.choices), -number, place)
                    found.append((order, parameter, span, value))
        chosen: dict[str, list[tuple[range, str]]] = {}
        for _, parameter, span, value in sorted(found, key=lambda each: each[0]):
            is_free = parameter.name not in chosen or "array" in parameter.types
            if is_free and not self._used.intersection(span):
                chosen.setdefault(parameter.name, []).append((span, value))
                self._used.update(span)
        if verb := self._find_verb([each for spans in chosen.values() for each in spans]):
            self._used.difference_update(verb[0])
            chosen = {name: [each for each in spans if each != verb] for name, spans in chosen.items()}
        for parameter in (each for each in self._parameters if chosen.get(each.name)):
            spans = chosen[parameter.name]
            self._params[parameter.name] = parameter.wrap([value for _, value in spans])
            if not parameter.choices:
                self._named += sum(len(span) for span, _ in spans)
                for _, value in spans:
                    self._implied |= find_implied(self._known, value, self._fields)

    def _find_verb(self, found: list[tuple[range, str]]) -> tuple[range, str] | None:
        """What is the verb of the message, though there is a value of that name: "lock the front door"."""
        first = next((at for at, token in enumerate(self._tokens) if token.counts), -1)
        return next(
            (
                (span, value)
                for span, value in found
                if self._said.act is Act.REQUEST
                and len(found) > 1
                and [*span] == [first]
                and self._tokens[first].text.lower() == value.lower()
            ),
            None,
        )

    def _take_zones(self) -> None:
        """Time zones and their towns: what stands after "from" and "to" in the order of the parameters."""
        zones = [each for each in self._open() if _ZONE.search(each.about) and each.is_text]
        if not zones:
            return
        found = [each for each in find_zones(self._tokens) if not self._used.intersection(each[0])]
        if len(zones) > len(found) == 1 and self._before(found[0][0]) in ("to", "in"):
            zones.reverse()
        for parameter, (span, name) in zip(zones, found, strict=False):
            self._put(parameter, name, span, is_typed=True)
        for parameter in zones[len(found) :] if found else ():
            if parameter.required and self._zone:
                self._params[parameter.name] = self._zone

    def _before(self, span: range) -> str:
        return self._tokens[span.start - 1].text.lower() if span.start else ""

    def _take_typed(self) -> None:
        """Addresses, paths, the two parts of owner/name, and times of day."""
        free = {kind: self._of_kind(kind) for kind in ("url", "path", "pair", "time")}
        for parameter in [each for each in self._open() if "string" in each.types and not each.choices]:
            if re.search(r"(?i)\bur[li]\b", parameter.about) and free["url"]:
                at = free["url"].pop(0)
                url = self._tokens[at].text.rstrip(".,;:!?)")
                self._put(parameter, url if "://" in url else f"https://{url}", [at], is_typed=True)
            elif re.search(r"(?i)\btime\b", parameter.name) and free["time"]:
                at = free["time"].pop(0)
                self._put(parameter, self._tokens[at].text, [at], is_typed=True)
        required = [
            each for each in self._open() if each.required and "string" in each.types and not each.choices
        ]
        if free["pair"] and len(required) > 1 and not _PATHS.search(required[0].name):
            at = free["pair"].pop(0)
            for parameter, part in zip(required, self._tokens[at].text.split("/"), strict=False):
                self._put(parameter, part, [at], is_typed=True)
        globs = [at for at in free["path"] if "*" in self._tokens[at].text]
        paths = sorted({*free["path"], *free["pair"]} - set(globs))
        for parameter in [each for each in self._open() if each.required and "string" in each.types]:
            of_pattern = "pattern" in parameter.name.lower()
            places = globs if of_pattern else paths if _PATHS.search(parameter.name) else []
            if places:
                at = places.pop(0)
                self._put(parameter, self._tokens[at].text, [at], is_typed=True)

    def _of_kind(self, kind: str) -> list[int]:
        return [at for at, token in enumerate(self._tokens) if token.kind == kind and at not in self._used]

    def _take_numbers(self) -> None:
        """Numbers: each for the parameter that the words around it name, else the required one."""
        numbers = self._of_kind("number")
        spoken = {token.stem for token in self._tokens if token.kind == "word"}
        for at in numbers:
            around = {
                token.stem for token in self._tokens[max(0, at - NEAR) : at + 2] if token.kind == "word"
            }
            marks = []
            for parameter in (each for each in self._open() if each.is_number):
                words, about = set(split_name(parameter.name)) - SMALL, set(stems_of(parameter.about))
                likeness = 2 * len(words & around) + len(words & spoken) + _count_like(around, about)
                if likeness or parameter.required:
                    marks.append((likeness + 3 * parameter.required, parameter))
            if not marks:
                continue
            parameter = max(marks, key=lambda each: each[0])[1]
            text = self._tokens[at].text.lstrip("#").replace(",", ".")
            value = float(text)
            low, high = parameter.schema.get("minimum"), parameter.schema.get("maximum")
            if (low is not None and value < low) or (high is not None and value > high):
                continue
            whole = value.is_integer() and ("integer" in parameter.types or "." not in text)
            unit = (
                [at + 1]
                if at + 1 < len(self._tokens) and self._tokens[at + 1].stem in ("percent", "degre")
                else []
            )
            self._put(parameter, int(value) if whole else value, [at, *unit], is_typed=True)

    def _take_flags(self) -> None:
        """A flag is set that the message names."""
        for parameter in [each for each in self._open() if each.types == {"boolean"}]:
            for span in find_spans(self._tokens, " ".join(re.findall(r"[A-Z]?[a-z]+", parameter.name))):
                self._put(parameter, self._before(span) not in ("not", "no", "non"), span)

    def _take_texts(self) -> None:
        """Texts: what is quoted, what stands after a colon, else the one phrase that is left."""
        open_texts = [each for each in self._open() if each.required and each.is_text and not each.choices]
        for at in self._of_kind("quoted"):
            if open_texts:
                parameter = open_texts.pop(0)
                self._put(parameter, parameter.wrap([self._tokens[at].text]), [at])
        if not self._known and not self._params and not open_texts:  # what there is is not known
            open_texts = [each for each in self._open() if each.is_text and each.name.lower() in _THING]
        if len(open_texts) != 1 or _PATHS.search(open_texts[0].name) or _ZONE.search(open_texts[0].about):
            return
        after = self._after_colon()
        if not after and (self._said.asks or self._overwrites):
            return
        if span := after or self._longest_rest():
            raw = self._text[self._tokens[span.start].start : self._tokens[span.stop - 1].end]
            if value := (raw if after else _TAIL.sub("", _NAMED.sub("", raw))).strip(" .,;:?!"):
                self._put(open_texts[0], open_texts[0].wrap([value]), span)

    def _after_colon(self) -> range | None:
        found = re.search(r":\s+", self._text)
        places = [at for at, token in enumerate(self._tokens) if found and token.start >= found.end()]
        return range(places[0], len(self._tokens)) if places else None

    def _longest_rest(self) -> range | None:
        """The longest run of words that are of no parameter, nor of the tool's name."""
        spoken = {at for at, token in enumerate(self._tokens) if at in self._used or self._is_of_tool(token)}
        if not spoken:
            return None
        runs: list[list[int]] = [[]]
        for at in range(len(self._tokens)):
            if at in spoken:
                runs.append([])
            else:
                runs[-1].append(at)
        if runs[0][:1] == [0] and self._tokens[0].kind == "word":
            del runs[0][0]  # the verb of an order
        best = max(runs, key=lambda run: sum(self._tokens[at].counts for at in run))
        return range(best[0], best[-1] + 1) if any(self._tokens[at].counts for at in best) else None

    def _is_of_tool(self, token: Token) -> bool:
        return token.kind == "word" and token.stem in self._explained and token.counts


def _count_like(words: set[str], about: set[str]) -> int:
    """How many of ``words`` are among others, or the beginning of one: percent of percentage."""
    return sum(
        any(each == word or (len(word) > 4 and each.startswith(word)) for each in about) for word in words
    )
