"""Interpreters: code on the command line is judged, programs of the workspace may run."""

from collections.abc import Mapping

import msgspec

from shared.sandbox.policy.call import Call, Handler
from shared.sandbox.policy.expansion import UNKNOWN
from shared.sandbox.policy.options import parse_options
from shared.sandbox.policy.paths import Place
from shared.sandbox.policy.programs.code import judge_code
from shared.sandbox.policy.programs.packages import judge_pip
from shared.sandbox.policy.programs.python_code import judge_python
from shared.sandbox.policy.programs.shells import run_file
from shared.sandbox.policy.scope import Stream
from shared.sandbox.policy.words import Word


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """``code``: options whose value is code, ``loads``: those that load modules, ``valued``: others."""

    name: str
    code: str
    valued: str = ""
    loads: str = ""


_LANGUAGES = {
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
    "deno": Language(name="deno", code="e eval"),
    "bun": Language(name="node", code="e eval p print", loads="r preload"),
    "php": Language(name="php", code="r B R E", valued="d c f S t", loads="d"),
    "lua": Language(name="lua", code="e", loads="l"),
    "luajit": Language(name="lua", code="e", loads="l"),
    "Rscript": Language(name="R", code="e"),
    "R": Language(name="R", code="e f"),
    "julia": Language(name="julia", code="e E eval print", loads="L"),
    "elixir": Language(name="elixir", code="e eval", loads="r"),
    "erl": Language(name="erlang", code="eval run s"),
    "scala": Language(name="scala", code="e"),
    "groovy": Language(name="groovy", code="e"),
    "ghc": Language(name="haskell", code="e"),
    "runghc": Language(name="haskell", code="e"),
    "tclsh": Language(name="tcl", code="c"),
    "wish": Language(name="tcl", code="c"),
    "expect": Language(name="tcl", code="c"),
    "guile": Language(name="scheme", code="c e"),
    "sbcl": Language(name="lisp", code="eval", loads="load"),
    "clisp": Language(name="lisp", code="x"),
    "emacs": Language(name="elisp", code="eval execute", valued="l f", loads="l load"),
    "osascript": Language(name="applescript", code="e l"),
    "jshell": Language(name="java", code="e"),
    "jrunscript": Language(name="java", code="e"),
    "jjs": Language(name="java", code="e"),
    "rhino": Language(name="java", code="e"),
    "octave": Language(name="octave", code="eval"),
    "gnuplot": Language(name="gnuplot", code="e"),
    "swipl": Language(name="prolog", code="g t"),
    "ocaml": Language(name="ocaml", code="e"),
    "racket": Language(name="racket", code="e"),
    "crystal": Language(name="crystal", code="eval"),
    "raku": Language(name="raku", code="e"),
    "gjs": Language(name="gjs", code="c"),
    "cscript": Language(name="windows", code="e"),
    "m4": Language(name="m4", code="D"),
}
_MODULES_FINE = frozenset(
    "pytest unittest doctest venv json.tool pip mypy ruff black flake8 isort pylint coverage build "
    "compileall py_compile timeit "
    "cProfile pstats trace calendar this tabnanny dis ast tokenize pydoc site sysconfig platform "
    "zipapp ensurepip sphinx mkdocs "
    "twine bandit pyright nox tox pre_commit cython pybabel babel base64 gzip inspect pyclbr "
    "symtable textwrap uv hatch flit".split()
)
_MODULE_RULES = {
    "http.server": "network.listen",
    "SimpleHTTPServer": "network.listen",
    "http": "network.listen",
    "smtpd": "network.listen",
    "aiosmtpd": "network.listen",
    "ftplib": "network.fetch",
    "telnetlib": "network.shell",
    "pty": "unclear.code",
    "code": "unclear.code",
    "webbrowser": "network.fetch",
    "twine": "package.publish",
    "pyftpdlib": "network.listen",
    "updog": "network.listen",
    "poetry": "",
    "ensurepip": "package.install",
    "idlelib": "unclear.code",
    "pdb": "unclear.code",
    "runpy": "unclear.code",
    "uploadserver": "network.listen",
    "sqlite3": "database.change",
    "tarfile": "write.unpack",
    "zipfile": "",
}


def judge_interpreter(call: Call) -> Stream | None:  # noqa: PLR0912 - one branch a kind
    """perl, ruby, node and the like."""
    language = _LANGUAGES.get(call.name) or _LANGUAGES[call.name.rstrip("0123456789.-")]
    found = parse_options(call.args, f"{language.code} {language.valued} {language.loads}", permute=False)
    codes = found.of(*language.code.split())
    inplace = language.name in {"perl", "ruby"} and any(
        flag.startswith("i") or flag in {"pi", "ni"} for flag in found.flags
    )
    loads = found.of(*language.loads.split())
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
    if found.has("version", "v", "V", "help", "h") and not codes and not operands:
        return None
    for word in loads:
        _judge_loaded(call, language, word)
    for word in codes:
        judge_code(call, language.name, word.text)
    if codes:
        for word in operands:
            call.read(word)
            if inplace:
                call.write(word)
        return Stream(source="made")
    if operands and operands[0].text != "-":
        return run_file(call, operands[0])
    if language.name in {"R", "octave", "gnuplot", "elisp"} and not operands and call.stdin.text == "":
        return None
    return _judge_fed(call, lambda code: judge_code(call, language.name, code))


_LOADED_FINE = frozenset(
    "strict warnings utf8 List::Util POSIX Data::Dumper JSON JSON::PP Time::Local Time::HiRes Encode "
    "MIME::Base64 Digest::MD5 Digest::SHA Math::Trig "
    "Scalar::Util Text::Wrap Text::CSV feature bigint bignum open json set date time csv digest yaml "
    "pp 5.010 5.10.0 v5.10 display_errors=1 memory_limit=-1".split()
)


def _judge_loaded(call: Call, language: Language, word: Word) -> None:
    name = word.text.partition("=")[0].lstrip("-") if language.name == "perl" else word.text
    if name not in _LOADED_FINE:
        call.find("unclear.code", call.name)
        if "/" in name:
            call.read(word)


def _judge_fed(call: Call, judge: "object") -> Stream | None:
    """Code from the input: judged where it is known."""
    stream = call.stdin
    if stream.source == "network":
        call.find("run.download")
    elif stream.text is None:
        call.find("unclear.input", call.name)
    elif stream.text.strip():
        judge(stream.text)  # type: ignore[operator]
    return Stream(source="made")


def judge_python_call(call: Call) -> Stream | None:  # noqa: PLR0912 - one branch a kind
    """python: code after -c, a module after -m, a file, or what it is fed."""
    words: Mapping[int, Word] = dict(enumerate(call.args))
    position = 0
    while position in words:
        text = words[position].text
        if text in {"-W", "-X", "--check-hash-based-pycs"}:
            position += 2
            continue
        if not text.startswith("-") or text == "-":
            break
        if text.startswith("--"):
            return None
        letters = text[1:]
        if "c" in letters:
            rest = letters[letters.index("c") + 1 :]
            code = rest or (words[position + 1].text if position + 1 in words else "")
            judge_python(call, code)
            for word in call.args[position + 2 :]:
                call.read(word)
            return Stream(source="made")
        if "m" in letters:
            rest = letters[letters.index("m") + 1 :]
            module = Word(rest) if rest else words.get(position + 1, Word(""))
            _judge_module(call, module, call.args[position + (1 if rest else 2) :])
            return Stream(source="made")
        if letters in {"V", "VV", "h"}:
            return None
        if "i" in letters:
            call.find("unclear.code", call.name)
        position += 1
    if position in words and words[position].text != "-":
        call.args = call.args[position:]
        path = call.path(words[position])
        if (path or "").endswith("setup.py") and any(
            word.text in {"install", "develop", "upload", "register", "easy_install"}
            for word in call.args[1:]
        ):
            call.find("package.install")
        known = call.scope.files.get(path or "")
        if (
            known is not None
            and known.text is not None
            and UNKNOWN not in known.text
            and known.source != "program"
        ):
            judge_python(call, known.text)
            return None
        for word in call.args[1:]:
            call.read(word)
        return run_file(call, words[position])
    if not call.args and call.stdin.text == "":
        return None
    return _judge_fed(call, lambda code: judge_python(call, code))


def _judge_module(call: Call, module: Word, rest: "object") -> None:  # noqa: PLR0912 - one branch a kind
    name, words = module.text, list(rest)  # type: ignore[call-overload]
    if not module.known:
        call.find("unclear.code", call.name)
    elif name in {"pip", "ensurepip"}:
        call.words, call.args, call.name = [Word("pip"), *words], words, "pip"
        if name == "ensurepip":
            call.find("package.install")
        judge_pip(call)
    elif name in {"timeit", "cProfile", "trace", "pdb", "profile"} and words:
        found = parse_options(words, "s n r u o m setup", permute=False)
        for word in found.of("s", "setup"):
            judge_python(call, word.text)
        if name == "timeit":
            judge_python(call, "\n".join(word.text for word in found.operands))
        elif found.operands and not found.has("m"):
            call.run([Word("python3"), *found.operands])
        for word in found.of("o"):
            call.write(word)
    elif rule := _MODULE_RULES.get(name.split(".")[0] if name not in _MODULE_RULES else name):
        if name == "twine" and words and words[0].text == "check":
            return
        call.find(rule)
    elif name == "venv":
        for word in words:
            if not word.text.startswith("-"):
                call.write(word, gently=True)
    else:
        call.args = words
        call.judge_program_arguments()


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys(_LANGUAGES, judge_interpreter),
    **dict.fromkeys("python python2 python3 pypy pypy3 ipython bpython pythonw".split(), judge_python_call),
}
