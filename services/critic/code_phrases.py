"""Rules about code other than imports as prose states them, and the sentences that only sound like rules."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from services.critic.code_rules import (
    CodeRule,
    Docstrings,
    FileLength,
    FunctionLength,
    Imports,
    LineLength,
    NoCycles,
    NoLibrary,
    NoText,
    NoUse,
    TestsIn,
    Typed,
)
from services.critic.document import ModuleNames

NUMBER = {
    "five hundred": "500",
    "a thousand": "1000",
    "one thousand": "1000",
    "a hundred": "100",
    "hundred": "100",
}
LONG = (
    r"(?:(?:is|are|be|gets?|grows?|may be|should be|must be)\s+)?(?:longer|larger|bigger) than|(?:has|have"
    r"|exceeds?|with) (?:more than|over)"
    r"|exceeds?|(?:is|are|goes) (?:over|above|beyond)|over|above|(?:has|have) at least"
)
SHORT = (
    r"at most|no more than|not more than|no longer than|less than|fewer than|under|below|within|up to"
    r"|a maximum of|max(?:imum)?\.?(?: of)?|<=?|≤"
)
BAN = r"(?:no|never|don['’]?t|do not|must not|may not|cannot|can ?not|avoid|not)"
USING = (
    r"(?:use|uses|using|call|calls|calling|write|import|imports|depend on|add|adding|have|be|is|are|any"
    r"|the|a|an)"
)
SAME = {
    "sqlite": "sqlite|better-sqlite3",
    "postgresql": r"psycopg|asyncpg|^pg$|pgx|lib/pq|^postgres|tokio_postgres",
    "postgres": r"psycopg|asyncpg|^pg$|pgx|lib/pq|^postgres|tokio_postgres",
    "mysql": "mysql|mariadb",
    "mongodb": "mongo",
    "mongo": "mongo",
    "redis": "redis|valkey",
    "orm": "sqlalchemy|django.db|peewee|tortoise|^typeorm|sequelize|prisma|gorm",
    "an orm": "sqlalchemy|django.db|peewee|tortoise|^typeorm|sequelize|prisma|gorm",
    "kafka": "kafka",
    "unittest": r"^unittest(?!\.mock)",
    "beautifulsoup": "bs4",
}
"""What imports look like if they use a thing that is called otherwise."""
STDLIB_CALLS = (
    "print eval exec input breakpoint console.log console.error alert panic unwrap expect todo dbg println"
).split()
ABOUT_CODE = re.compile(
    r"`[^`]+`|\b(?:modules?|packages?|imports?|functions?|class(?:es)?|methods?|files?|lines?|types?|typed"
    r"|docstrings?"
    r"|comments?|dependenc(?:y|ies)|librar(?:y|ies)|databases?|quer(?:y|ies)|SQL|exceptions?|errors?"
    r"|loggers?|logging"
    r"|print|variables?|constants?|globals?|code|layers?|API|endpoints?|handlers?|controllers?|services?"
    r"|threads?"
    r"|async|await|callbacks?|secrets?|passwords?|inheritance|singletons?|names?|identifiers?|snake_case"
    r"|camelCase"
    r"|schemas?|migrations?|tests?|fixtures?|mocks?|coverage|lint(?:er)?|PostgreSQL|SQLite)\b",
    re.IGNORECASE,
)
COMMANDING = re.compile(
    r"^(?:no|never|always|do not|don['’]t|keep|avoid|use)\b"
    r"|^(?:only|every|each|all)\b(?=.*\b(?:must|may|should|can|has|have|needs?|reads?|writes?|opens?|go(?:es)?"
    r"|starts?|is|are)\b)|\b(?:must|shall|may not|should not|should never|must never)\b|, never\b"
    r"|\b(?:is|are) (?:forbidden|required|not allowed)\b|\b(?:is|are|does|do) never\b",
    re.IGNORECASE,
)
DATED = re.compile(r"\W*\d{4}-\d\d")  # An entry of a list of decisions or changes
BRIEF = 12
MOST_WORDS = 28  # A rule is a short sentence; a longer one explains
TO_A_READER = re.compile(
    r"\b(?:you|your|please|we recommend|pull requests?|PRs?|issues?|commits?|branch(?:es)?|license|users?)\b"
    r"|^(?:always |never |do not |use )?(?:run|install|open|see|read|create|add yourself|check out)\b",
    re.IGNORECASE,
)
"""Sentences about what people do, not about what the code is."""
SCOPE = re.compile(
    r",?\s+(?P<how>outside(?: of)?|except(?: for)?(?: in)?|other than in|but in|apart from(?: in)?"
    r"|unless in|in|inside|within)"
    r"\s+(?P<where>[^,.;]+)$",
    re.IGNORECASE,
)
EVERYWHERE = re.compile(
    r"(?:the )?(?:production|library|application|product|source|our|project|new|this|whole)?\s*"
    r"(?:code(?: ?base)?|project|repo(?:sitory)?|files?|package|sources?)"
)


REWORDED = (
    (
        r"^(.+?) (?:is|are) (?:strictly )?(?:forbidden|banned|prohibited|disallowed|not (?:allowed|permitted)"
        r"|never (?:used|allowed))$",
        r"never use \1",
    ),
    (r"^(.+?) (?:must|may|should|shall|can) ?(?:not|never) be (?:used|called|allowed)$", r"never use \1"),
    (r"^(functions?|methods?|files?|modules?|lines?): (?=max|at most|no more|no longer)", r"\1 are "),
    (r"\s*\((never|not) ([^()]+)\)$", r", \1 \2"),
    (r"^(?:the )?(?:\w+ )?\w+: (?=[\w.]+, (?:never|not) )", ""),
)
"""Other ways to say the same, and the one that the forms know."""


def parse_code_rule(text: str, source: str, stated: str, names: ModuleNames) -> CodeRule | None:
    """The rule that a sentence states about code; None if it states none that is understood."""
    words = " ".join(re.sub(r"\*\*|__(?=\w+__)", "", text).split()).strip(" .!")
    words = re.sub(r"^[-*•]\s+|^(?:please|also|and|so|then)[, ]\s*", "", words, flags=re.IGNORECASE)
    for spelled, number in NUMBER.items():
        words = re.sub(rf"\b{spelled}\b", number, words, flags=re.IGNORECASE)
    for form, plain in REWORDED:
        words = re.sub(form, plain, words, flags=re.IGNORECASE)
    common: dict[str, Any] = {"text": stated, "source": source}
    if rule := _match(words, common, names):
        return rule
    scope = SCOPE.search(words)
    if scope is None:
        return None
    # Where it holds, or does not
    inside = scope["how"].lower() in ("in", "inside", "within")
    where = scope["where"].strip()
    of_tests = not inside and where.strip("`/ ").lower() in ("tests", "test")
    place: dict[str, Any] = {}
    if not EVERYWHERE.fullmatch(where.lower()) and not of_tests:
        found = names.look_up(where)
        if found is None or not found.internal:
            return None  # the words name no module
        place = {"within" if inside else "outside": found.internal}
    return _match(words[: scope.start()], common | place, names)


def _match(words: str, common: dict[str, Any], names: ModuleNames) -> CodeRule | None:
    found = (build(match, common, names) for form, build in FORMS if (match := form.fullmatch(words)))
    return next(filter(None, found), None)


def sounds_like_a_rule(text: str) -> bool:
    """Whether a sentence commands something about code."""
    words = re.sub(r"\*\*|__", "", text).strip(" *-")
    brief = words.count(" ") < BRIEF and re.search(r"\b(?:never|only|nothing|nobody)\b", words, re.IGNORECASE)
    return bool(
        words.count(" ") < MOST_WORDS
        and not DATED.match(words)
        and not words.startswith("use ")  # the rest of a sentence that was cut at a semicolon
        and (brief or COMMANDING.search(words))
        and ABOUT_CODE.search(words)
        and not TO_A_READER.search(words)
        and not words.endswith("?")
    )


Build = Callable[[re.Match[str], dict[str, Any], ModuleNames], CodeRule | None]

FILES = r"(?:source |code |python )?(?:files?|modules?)"
FUNCTIONS = r"(?:functions?|methods?)(?: (?:and|or) (?:functions?|methods?))?"
LIMIT = r"(?P<n>\d[\d,]*)\s*(?:lines?|loc)(?: of code)?(?: long| each| in length)?"
CALL = (
    r"(?:`(?P<name>[\w.$]+)(?:\(\s*\)|!)?`|(?P<bare>print|eval|exec|console\.log|alert|println"
    r"|unwrap)(?:\(\)|!)?)"
)


def _lengths(things: str) -> Iterator[str]:
    """The ways to say how long ``things`` may be."""
    every = rf"(?:(?:all|every|each|a|the|our) )?{things}"
    yield rf"no {things} (?:{LONG}) {LIMIT}"
    yield rf"{every} (?:must|may|should|shall|can)? ?(?:not|never) (?:{LONG}|(?:be|have) (?:{LONG})) {LIMIT}"
    yield rf"{every} (?:never|don['’]t|do not|does not) (?:exceed|have more than|grow over|go over) {LIMIT}"
    yield (
        rf"{every} (?:(?:must|may|should|shall|can) )?(?:have|has|be|are|is|stay|stays|kept|be kept"
        rf"|remain)?\s*"
        rf"(?:{SHORT}) {LIMIT}"
    )
    yield rf"keep {every} (?:(?:small|short)[,:]? )?(?:{SHORT}) {LIMIT}"
    yield rf"(?:{SHORT}) {LIMIT} (?:per|a|in a|in each|for each|for a) {things}"
    yield rf"{LIMIT} (?:per|a) {things}(?: at most| max(?:imum)?)?"
    yield (
        rf"(?:the )?max(?:imum|\.)? (?:length of (?:a |all )?{things}|{things} (?:length|size))(?: is"
        rf"|:)? {LIMIT}"
    )


def _limit(kind: type[FileLength | FunctionLength | LineLength]) -> Build:
    return lambda match, common, names: kind(**common, limit=int(match["n"].replace(",", "")))


def _docstrings(match: re.Match[str], common: dict[str, Any], names: ModuleNames) -> CodeRule | None:
    what = (match["what"] or match["more"]).lower()
    kinds = {"module": "module", "class": "class", "function": "function", "method": "function"}
    named = tuple(dict.fromkeys(kind for word, kind in kinds.items() if word in what))
    return Docstrings(**common, kinds=named) if named else None


def _todo(match: re.Match[str], common: dict[str, Any], names: ModuleNames) -> CodeRule:
    words = "|".join(filter(None, (match["word"].upper(), (match["second"] or "").upper())))
    return NoText(**common, pattern=rf"\b(?:{words})\b", what=f"a {words.replace('|', ' or ')}")


def _no_call(match: re.Match[str], common: dict[str, Any], names: ModuleNames) -> CodeRule | None:
    plain = match["bare"] or match["late"] or match["fourth"]
    quoted = match["name"] or match["third"]
    name = plain.lower() if plain else quoted
    known = plain or "." in name or name in STDLIB_CALLS or f"`{name}(" in match[0] or f"`{name}!" in match[0]
    return NoUse(**common, name=name) if known else None


def _no_library(match: re.Match[str], common: dict[str, Any], names: ModuleNames) -> CodeRule | None:
    name = match["lib"] or match["second"] or match["third"]
    if match["second"] and name.lower() not in SAME and f"`{name}`" not in match[0]:
        return None  # "no requests", "no time"
    return _library(name, common, names)


LIBRARIES = frozenset(
    "sqlalchemy django flask fastapi urllib3 httpx aiohttp numpy pandas scipy pickle marshal subprocess"
    " ctypes asyncio threading multiprocessing logging structlog loguru pydantic attrs msgspec celery"
    " boto3 lodash underscore jquery axios react vue angular koa fastify webpack jest mocha chai sinon"
    " typeorm prisma sequelize mongoose knex gorm logrus zap tokio serde anyhow selenium lxml yaml"
    " pyyaml simplejson ujson orjson optparse argparse setuptools distutils pkg_resources datetime"
    " beautifulsoup tensorflow torch".split()
)
"""Names that prose may use without marking them as code."""


def _library(name: str, common: dict[str, Any], names: ModuleNames) -> CodeRule | None:
    """The rule against a library, or what one is used for, whose name is known: imports would show it."""
    low = name.lower()
    if low not in (*SAME, *LIBRARIES) and name not in names.external:
        return None
    return NoLibrary(**common, pattern=SAME.get(low) or rf"^(?:[\w.@/-]+/)?{re.escape(low)}(?:[./]|$)")


ROWS: tuple[tuple[str, Build], ...] = (
    *((form, _limit(FileLength)) for form in _lengths(FILES)),
    *((form, _limit(FunctionLength)) for form in _lengths(FUNCTIONS)),
    (
        rf"(?:no lines? (?:{LONG})|(?:all |keep )?lines? (?:(?:must|should|may) )?(?:are |be |have |is |stay "
        rf"|kept )?(?:{SHORT})"
        rf"|(?:the )?(?:maximum )?line[- ]length(?: is| of|:)?(?: {SHORT})?"
        r"|max(?:imum)? line[- ]length(?: is|:)?)"
        r" (?P<n>\d+)(?: (?:characters?|columns?|chars?))?(?: long| wide)?",
        _limit(LineLength),
    ),
    (
        rf"(?:{BAN} )+(?:{USING} )?(?:relative imports?)|(?:all |use )?absolute imports? only"
        rf"|(?:always )?(?:use )?absolute imports?"
        r"|(?:all )?imports? (?:must be|are|should be) absolute|(?:use )?only absolute imports?"
        r"(?:, never relative(?: ones)?)?",
        lambda match, common, names: Imports(**common, kind="relative"),
    ),
    (
        rf"(?:{BAN} )+(?:{USING} )*(?:wildcard|star|glob) imports?"
        rf"|(?:{BAN} )+(?:{USING} )*`?from \S+ import \*`?",
        lambda match, common, names: Imports(**common, kind="wildcard"),
    ),
    (
        rf"(?:{BAN}|there (?:are|is|must be) no) (?:{USING} )*(?:circular|cyclic)"
        r" (?:imports?|dependenc(?:y|ies))"
        rf"|(?:{BAN}|there are no) (?:{USING} )*(?:import|dependency) (?:cycles?|circles?|loops?)"
        r"|(?:imports|modules|packages|dependencies) (?:must |may |should )?(?:not|never|do not"
        r"|don['’]t) (?:form|have|be in) (?:a )?(?:cycles?|circles?|circular)"
        r"(?: at run ?time)?",
        lambda match, common, names: NoCycles(**common),
    ),
    (
        r"(?:every|each|all) (?P<what>(?:public )?(?:modules?|class(?:es)?|functions?|methods?)"
        r"(?:(?:, | and |, and | or )(?:public )?(?:modules?|class(?:es)?|functions?|methods?))*)"
        r" (?:must |should )?(?:has|have|needs?|carr(?:y|ies)|starts? with|begins? with|requires?) (?:a "
        r"|its own )?(?:docstrings?|doc comments?)"
        r"|docstrings? (?:are|is) (?:required|mandatory) (?:for|on|in) (?:all|every|each) (?P<more>[\w ,]+)",
        _docstrings,
    ),
    (
        r"(?:(?:every|each|all) )?(?:public )?(?:functions?|methods?|code|signatures?)(?: and \w+)? "
        r"(?:must |should )?(?:be |is |are |has |have |needs? |uses? )(?:fully |complete(?:ly)? )?(?:typed"
        r"|annotated"
        r"|type(?:[- ]hint(?:s|ed)?| annotat(?:ions?|ed)))"
        r"|type (?:hints|annotations)(?: (?:are|is) (?:required|mandatory))?"
        r"(?: (?:everywhere|for all functions"
        r"|on every function))?",
        lambda match, common, names: Typed(**common),
    ),
    (
        r"(?:all |unit |the )*tests? (?:files? )?(?:must |should |always )?"
        r"(?:lives?|go(?:es)?|are|is|belongs?|be"
        r"|stays?|resides?|placed|be placed|sits?)"
        r" (?:only )?(?:placed |kept )?(?:in|under|beneath|inside"
        r"|below) (?:the )?`?(?P<folder>[\w./-]+?)/?`?(?: folder| director(?:y|ies))?(?:, .+)?"
        r"|put (?:all )?tests (?:in|under) `?(?P<other>[\w./-]+?)/?`?",
        lambda match, common, names: TestsIn(
            **common, folder=(match["folder"] or match["other"]).strip("/").removeprefix("./")
        ),
    ),
    (
        rf"(?:{BAN} )+(?:{USING} )*(?P<word>TODO|FIXME|XXX|HACK)s?(?: or (?P<second>TODO|FIXME"
        rf"|XXX)s?)?(?: comments?)?",
        _todo,
    ),
    (
        rf"(?:{BAN} )+(?:{USING} )*{CALL}s?(?:[- ](?:statements?|calls?|functions?))?(?: (?:for|to) [\w ]+)?"
        rf"(?:[,;:]? (?:use|but use|use only) .+)?"
        rf"|(?:always )?(?:use|log with|log through) .+?,? (?:not|never|instead of"
        rf"|rather than) (?:{USING} )?`?(?P<late>print|console\.log|println|eval)(?:\(\)|!)?`?"
        r"(?:[- ](?:statements?|calls?))?"
        rf"|{CALL.replace('name', 'third').replace('bare', 'fourth')} (?:is|are) (?:forbidden|not allowed"
        rf"|banned|never (?:used|called))",
        _no_call,
    ),
    (
        r"(?:.+?[:,] |[\w ]+? (?:is|are) )?(?:we )?(?:only |always )?(?:use |uses )?"
        r"`?(?P<use>[\w.+#-]+)`?(?: only| everywhere"
        r"| as (?:the|our) [\w ]+)?"
        r"(?:,? (?:and )?(?:never|not|instead of|rather than)|; never) (?:use )?`?(?P<never>[\w.+-]+)`?",
        lambda match, common, names: _library(match["never"], common, names),
    ),
    (
        rf"(?:{BAN} )+(?:use|uses|using|import|imports|depend on|add|adding) (?:the )?`?(?P<lib>[\w.+-]+"
        rf"|an ORM)`?(?: librar(?:y|ies)| package| module)?"
        r"(?:[,;:] use .+)?"
        r"|no `?(?P<second>[A-Z][\w.+-]+|an ORM)`?(?: anywhere| here)?"
        r"|`?(?P<third>[\w.+-]+)`? (?:is|are) (?:forbidden|banned|not allowed|never used)",
        _no_library,
    ),
)
"""The forms that such a rule takes, the more specific ones first, and the rule that each states."""
FORMS = [(re.compile(form, re.IGNORECASE), build) for form, build in ROWS]
