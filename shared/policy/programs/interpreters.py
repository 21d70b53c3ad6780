"""Interpreters but Python's: code on the command line is judged, programs of the workspace may run."""

from collections.abc import Callable

import msgspec

from shared.policy.call import Call, Handler
from shared.policy.options import parse_options
from shared.policy.paths import Place
from shared.policy.programs.code import judge_code
from shared.policy.programs.shells import run_file
from shared.policy.scope import Stream
from shared.policy.words import Word


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """``code``: options whose value is code, ``loads``: those that load modules, ``valued``: others.

    ``name``: what judge_code() knows it by; in other languages it knows nothing but printing.
    """

    name: str = ""
    code: str
    valued: str = ""
    loads: str = ""


_PROGRAMS = {
    "perl": Language(name="perl", code="e E", valued="M m I x C D", loads="M m"),
    "ruby": Language(name="ruby", code="e", valued="I r C E", loads="r"),
    "irb": Language(name="ruby", code="e", valued="r"),
    "node": Language(
        name="node",
        code="e eval p print pe",
        valued="r require import input-type",
        loads="r require import loader",
    ),
    "nodejs": Language(name="node", code="e eval p print", valued="r require", loads="r require"),
    "bun": Language(name="node", code="e eval p print", loads="r preload"),
    "php": Language(name="php", code="r B R E", valued="d c f S t", loads="d"),
    "lua luajit": Language(name="lua", code="e", loads="l"),
    "Rscript": Language(name="R", code="e"),
    "R": Language(name="R", code="e f"),
    "julia": Language(code="e E eval print", loads="L"),
    "elixir": Language(code="e eval", loads="r"),
    "erl": Language(code="eval run s"),
    "deno": Language(code="e eval"),
    "scala groovy ghc runghc jshell jrunscript jjs rhino ocaml racket raku cscript": Language(code="e"),
    "tclsh wish expect gjs": Language(code="c"),
    "guile": Language(code="c e"),
    "sbcl": Language(code="eval", loads="load"),
    "clisp": Language(code="x"),
    "emacs": Language(name="elisp", code="eval execute", valued="l f", loads="l load"),
    "osascript": Language(code="e l"),
    "octave": Language(name="octave", code="eval"),
    "gnuplot": Language(name="gnuplot", code="e"),
    "swipl": Language(code="g t"),
    "crystal": Language(code="eval"),
    "m4": Language(code="D"),
}
_LANGUAGES = {name: language for names, language in _PROGRAMS.items() for name in names.split()}


def judge_interpreter(call: Call) -> Stream | None:  # noqa: PLR0912 - one branch a kind
    """perl, ruby, node and the like."""
    language = _LANGUAGES.get(call.name) or _LANGUAGES[call.name.rstrip("0123456789.-")]
    found = parse_options(call.args, f"{language.code} {language.valued} {language.loads}", permute=False)
    codes = found.of(language.code)
    inplace = language.name in {"perl", "ruby"} and any(
        flag.startswith("i") or flag in {"pi", "ni"} for flag in found.flags
    )
    loads = found.of(language.loads)
    operands = found.operands
    if call.name in {"deno", "bun"} and operands and not codes:
        if operands[0].text in {"eval", "-e"}:
            codes, operands = operands[1:2], operands[2:]
        elif operands[0].text not in "test fmt lint check build install run task info doc".split():
            call.find("unknown.use")
        for word in operands:
            if "://" in word.text:
                call.find("run.download")
    if found.has("S") and call.name == "php":
        call.find("network.listen")
    if language.name == "elisp" and any(
        "/" in word.text and call.place(word) is not Place.WORKSPACE for word in call.args
    ):
        call.find("run.outside")
    if found.has("version v V help h") and not codes and not operands:
        return None
    for word in loads:
        _judge_loaded(call, language, word)
    for word in codes:
        judge_code(call, language.name, word.text)
    if codes:
        for word in operands if language.name != "node" else ():
            call.read(word)
            if inplace:
                call.write(word)
        return Stream(source="computed")
    if operands and operands[0].text != "-":
        return run_file(call, operands[0])
    if language.name in {"R", "octave", "gnuplot", "elisp"} and not operands and call.stdin.text == "":
        return None
    return judge_fed(call, lambda code: judge_code(call, language.name, code))


_LOADED_FINE = frozenset(
    "strict warnings utf8 List::Util POSIX Data::Dumper JSON JSON::PP Time::Local Time::HiRes Encode "
    "MIME::Base64 Digest::MD5 Digest::SHA Math::Trig Scalar::Util Text::Wrap Text::CSV feature bigint bignum "
    "open json set date time csv digest yaml pp 5.010 5.10.0 v5.10 display_errors=1 memory_limit=-1".split()
)


def _judge_loaded(call: Call, language: Language, word: Word) -> None:
    name = word.text.partition("=")[0].lstrip("-") if language.name == "perl" else word.text
    if name not in _LOADED_FINE:
        call.find("unclear.code", call.name)
        if "/" in name:
            call.read(word)


def judge_fed(call: Call, judge: Callable[[str], None]) -> Stream | None:
    """Code from the input: judged if it is known."""
    stream = call.stdin
    if stream.source == "network":
        call.find("run.download")
    elif stream.text is None:
        call.find("unclear.input", call.name)
    elif stream.text.strip():
        judge(stream.text)
    return Stream(source="computed")


PROGRAMS: dict[str, Handler] = {" ".join(_LANGUAGES): judge_interpreter}
