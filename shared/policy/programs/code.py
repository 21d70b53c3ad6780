"""Code of other languages: plain signs of harm are looked for, and commands it runs are judged."""

import re

from shared.policy.call import Call, Handler
from shared.policy.paths import is_private
from shared.policy.programs.builtins import run_file
from shared.policy.programs.fetching import judge_address
from shared.policy.scope import NOTHING, Stream, Word
from shared.policy.words import Options

LONGEST = 8_192  # Characters of code that is still judged
_STRING = re.compile(
    r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"|`((?:\\.|[^`\\])*)`|\b(?:qx|qw|%x)\s*[/({]([^/)}]*)[/)}]",
    re.DOTALL,
)
_DELETES = re.compile(
    r"\b(rmtree|unlink|remove_tree|remove|rmdir|rmSync|rm_rf|rm_r|rmdirSync|unlinkSync|delete|truncate"
    r"|removeSync|rename|move|fs\.rm|chmod|chown|FileUtils\.rm)\b"
)
_WRITES = re.compile(
    r"\b(write\w*|file_put_contents|copy\w*|symlink\w*|makedirs|mkdir)\b|,\s*['\"][wax]b?\+?['\"]|['\"]>>?"
)
_RUNS = re.compile(
    r"\b(system|popen\w*|subprocess|exec(?!ut)\w*|spawn\w*|getoutput|shell_exec|passthru|os\.execute|call|qx"
    r"|child_process|proc_open|Open3|check_output|run|syscmd|shell-command)\b|`|%x"
)
_FETCHES = re.compile(
    r"urlopen|urlretrieve|urllib|requests\.|httpx|http\.client|https?\.get|fetch\(|LWP|Net::HTTP|open-uri|aiohttp"
    r"|curl_exec|ftplib|smtplib"
)
_SOCKETS = re.compile(
    r"\b(socket|fsockopen|TCPSocket|create_connection|net\.connect|Socket|pty\.spawn)\b|require\(['\"]net"
)
_SHELLS = re.compile(r"\b(sh|bash|cmd|powershell|spawn|exec|system)\b|dup2")
_SENDS = re.compile(r"\b(post|put|environ)\b|data\s*=|\.env\b")
_EVALUATES = re.compile(r"\b(eval|exec|Function|compile|instance_eval|loadstring|load|__import__|getattr)\b")
_DECODES = re.compile(
    r"b64decode|base64|decode_base64|fromCharCode|atob|pack\b|unhexlify|fromhex|\brot13|codecs|zlib|inflate"
    r"|marshal|chr\(|\+\s*['\"]|\0"
)
_GIVEN = re.compile(r"b64decode|decode_base64|atob|unhexlify|fromhex|input\(|\$_GET|argv|\bpack\b")
_FORKS = re.compile(
    r"\b(while|for|loop|until)\b.{0,40}\bfork\b|\bfork\b\W{0,9}(while|for|until)\b|\bfork\b.{0,10}\bfork\b",
    re.DOTALL,
)
_KILLS = re.compile(r"\bkill(pg)?\(\s*[01]\s*,|process\.kill\(1|kill\s*\(?\s*9\s*,\s*1\b")
_SIGNS = (
    ("exhaust.fork-bomb", _FORKS, _FORKS),
    ("network.shell", _SOCKETS, _SHELLS),
    ("run.download", _FETCHES, re.compile(r"\b(eval|exec|Function)\b")),
    ("network.send", _FETCHES, _SENDS),
    ("process.kill", _KILLS, _KILLS),
    ("unclear.code", _EVALUATES, _DECODES),
    ("unclear.code", _RUNS, _GIVEN),
)
"""Signs of harm: a rule, and two patterns that are both found somewhere in the code."""
_FROM_HOME = re.compile(r"expanduser|Path\.home\(\)|os\.environ\[?.HOME|ENV\W{1,3}HOME|homedir\(\)")
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\([0-7]{3})")
_JOINED = re.compile(r"(['\"])\s*\+\s*\1")  # Where two texts are put together into one
_BARE = re.compile(r"(?<=\s)[/~][\w./~*-]*")
_PATHS = re.compile(r"~?/[\w.*~/-]*|~|\.\./.*")
_STATEMENT = re.compile(r"(?:^|[;{\n])\s*(?:exec|spawn)\s+([a-z][^;}\n]*)")


def judge_code(call: Call, code: str) -> None:
    """Judge code in any language by the texts in it and what it does with them."""
    if len(code) > LONGEST:
        call.find("unclear.size", "the code in it")
        return
    code = _ESCAPE.sub(lambda match: chr(int(match[1], 16) if match[1] else int(match[2], 8) & 127), code)
    strings = _STRING.finditer(_JOINED.sub("", code))
    texts = [next(filter(None, match.groups()), "").strip() for match in strings]
    deletes, runs, writes = (bool(pattern.search(code)) for pattern in (_DELETES, _RUNS, _WRITES))
    for text in texts or (_BARE.findall(code) if deletes else ()):
        _judge_text(call, text, deletes=deletes, writes=writes, runs=runs)
    if runs and len(texts) > 1 and all(len(text) < 80 for text in texts):
        call.guess(" ".join(text for text in texts if "\n" not in text and not text.startswith("/dev/")))
    if deletes and _FROM_HOME.search(code):
        call.find("destroy.outside-workspace", "What lies in the home")
    if is_private("/".join(text.strip("/") for text in texts if re.fullmatch(r"[\w./~-]+", text))):
        call.find("secret.file", "A path in it")
    for match in _STATEMENT.finditer(code):
        call.guess(match[1])
    for rule, one, other in _SIGNS:
        if one.search(code) and other.search(code):
            call.find(rule, call.name if rule == "unclear.code" else "")
    if not call.shell.reach and (_FETCHES.search(code) or _SOCKETS.search(code)):
        call.need("network")


def _judge_text(call: Call, text: str, *, deletes: bool, writes: bool, runs: bool) -> None:
    """A text in code: a path that is read, deleted or written, or a command, or an address."""
    bare = text.lstrip("<>+ ")
    if not bare or len(text) > 2_000:
        return
    if _PATHS.fullmatch(bare):
        word = Word(call.scope.value("HOME") + bare[1:] if bare.startswith("~") else bare)
        call.read(word)
        if deletes and not (writes and bare == "/"):
            call.delete(word, deep=True)
        if writes or text.startswith(">"):
            call.write(word)
    elif match := re.match(r"\w+://\S+", text):
        judge_address(call, Word(match[0]))
    elif runs and re.match(r"[A-Za-z.~/][\w./-]*(\s|$)", text) and "\n" not in text:
        call.guess(text)


_VALUED = {
    "python": "c m W X Q", "perl": "e E I M m", "ruby": "e I r C",
    "node": "e p r eval print require import loader",
    "php": "r f d", "lua": "e l", "Rscript": "e", "R": "e f", "julia": "e E", "deno": "",
    "bun": "e eval p print",
    "groovy": "e", "gdb": "ex p", "erl": "eval",
}  # fmt: skip
_KINDS = {
    "python": "ipython pypy micropython", "node": "nodejs", "ruby": "irb jruby", "lua": "luajit",
    "tclsh": "wish expect", "elixir": "iex",
}  # fmt: skip
_KIND = {name: kind for kind, names in _KINDS.items() for name in names.split()}


def judge_language(call: Call) -> Stream | None:
    """An interpreter runs code from an option, a module, a file, or what it is fed."""
    name = re.sub(r"[\d.]+$", "", call.name)
    kind = _KIND.get(name, name)
    found = call.options(_VALUED.get(kind, "c e"), permute=False)
    codes, operands = _codes(kind, found)
    for word in codes:
        loaded = [one.text for one in found.of("M r")]
        if kind == "gdb" and (match := re.match(r"\s*(?:shell|!)\s*(.*)", word.text)):
            call.guess(match[1])
        else:
            judge_code(call, " ".join([*loaded, word.text]))
    if kind == "python" and found.of("m"):
        return _run_module(call, found.of("m")[0].text, found.operands)
    if codes:
        for word in operands:
            call.read(word)
            if any("i" in flag for flag in found.flags):
                call.write(word)
        return Stream(source="computed")
    if kind == "gdb":
        return None
    return _run_script(call, operands[0]) if operands and operands[0].text != "-" else _run_fed(call)


def _codes(kind: str, found: Options) -> tuple[list[Word], list[Word]]:
    """The code that options hold, and the operands."""
    operands = found.operands
    if kind == "deno" and operands[:1] and operands[0].text in {"eval", "run"}:
        rest = operands[1:]
        return (rest[:1], []) if operands[0].text == "eval" else ([], rest)
    codes = found.of(
        {"python": "c", "php": "r", "node": "e p eval print"}.get(kind, "c e E p r eval print ex")
    )
    letters = [flag[-1:] for flag in found.flags if len(flag) > 1 and flag.islower()]
    if not codes and kind in {"perl", "ruby"} and "e" in letters:
        return operands[:1], operands[1:]
    return codes, operands


def _run_module(call: Call, module: str, words: list[Word]) -> Stream | None:
    if module == "timeit":
        for word in words:
            judge_code(call, word.text)
    if module not in {"http.server", "SimpleHTTPServer"}:
        return call.run([Word(module), *words])
    for word in call.args:
        if word.text.startswith(("/", "~")):
            call.read(word, deep=True)
    return None


def _run_script(call: Call, word: Word) -> Stream | None:
    stream = call.scope.files.get(call.path(word) or "")
    if stream is None or stream.source == "network" or stream.text is None:
        return run_file(call, word)
    judge_code(call, stream.text)
    return None


def _run_fed(call: Call) -> Stream | None:
    stream = call.stdin
    if stream.source == "network":
        call.find("run.download")
    elif stream.text is None and stream.source == "computed":
        call.find("unclear.input", call.name)
    elif stream.text is not None and stream is not NOTHING:
        judge_code(call, stream.text)
    return None


_AWK_RUNS = re.compile(r"\bsystem\s*\(|\|&?\s*[\"a-z$(]|\"\s*\|&?\s*getline|@load|\w\s*\|&?\s*getline")
_AWK_HIDES = re.compile(
    r"system\s*\(\s*[^\"\s]|\|\s*(?!getline)[a-z$(]|\|\s*\"(ba|z|da)?sh\b|@load|system\s*\(\s*\"(\w+)\""
)
_AWK_FILE = re.compile(r"(getline[^<;}]*<|>>?)\s*\"([/~.][^\"]*)\"")


def judge_awk(call: Call) -> Stream:
    """awk computes on lines; its language can run commands and write files."""
    found = call.options("F v f e i field-separator assign file source include l", permute=False)
    programs, files = list(found.of("e source")), found.operands
    call.apply(found, "read f file")
    call.judge_outputs()
    for word in found.of("v assign"):
        call.read(Word(word.text.partition("=")[2]))
    if not programs and not found.of("f file"):
        programs, files = files[:1], files[1:]
    for program in programs:
        _judge_awk_program(call, program.text)
    for word in files:
        if "=" not in word.text:
            call.read(word)
            if any("inplace" in one.text for one in found.of("i include")):
                call.write(word)
    return Stream(None, None, call.stdin.source or "computed")


def _judge_awk_program(call: Call, text: str) -> None:
    if re.search(r"/inet[46]?/(tcp|udp)", text):
        call.find("network.shell", call.name)
    bare = re.sub(r"/(?:\\.|[^/\n\\])*/", "/ /", text)
    if _AWK_RUNS.search(bare):
        for match in re.finditer(r'"((?:\\.|[^"\\])*)"', text):
            if re.match(r"[a-z/.~]", match[1]):
                call.guess(match[1])
        if _AWK_HIDES.search(bare):
            call.find("unclear.command")
    if re.search(r"getline\s*\w*\s*<|>\s*[a-z]", bare):
        for match in re.finditer(r'"([/~][^"]*)"', text):
            call.read(Word(match[1]))
            call.write(Word(match[1]))
    for match in _AWK_FILE.finditer(text):
        call.read(Word(match[2])) if "<" in match[1] else call.write(Word(match[2]))


PROGRAMS: dict[str, Handler] = {
    "python python2 python3 pypy pypy3 ipython micropython perl ruby irb jruby node nodejs php lua luajit "
    "Rscript R julia tclsh wish expect deno bun osascript groovy scala elixir iex erl gdb": judge_language,
    "awk gawk mawk nawk": judge_awk,
}
