"""Code of other languages given on the command line: anything but computing and printing is asked after."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.policy.expansion import UNKNOWN
from shared.policy.words import Word

if TYPE_CHECKING:
    from shared.policy.call import Call

LONGEST = 8_192
"""Characters of code that is still judged."""

_STRING = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"|`((?:\\.|[^`\\])*)`", re.DOTALL)
_PERL = re.compile(
    r"\b(system|exec|qx|fork|kill|eval|do|require|unlink|rmdir|mkdir|rename|chmod|chown|symlink|link|open"
    r"|opendir|sysopen|truncate|socket|connect|bind|listen|accept|send|syscall|utime|ioctl|dbmopen|glob"
    r"|chroot|umask|pipe|wait|use|no|local\s*\*|unpack|pack|readpipe|CORE|IO::|File::|Socket|LWP|Net::|HTTP::"
    r"|POSIX|Fcntl|ENV|BEGIN|END|sub|goto|dump|tie|bless|AUTOLOAD|while\s*\(\s*1)\b|`|\$\{\s*\\|&\s*[{$\"']"
    r"|->\s*[$(\[]|\*\{|<[$\w]*\*|<\s*/|\bENV\b|@ARGV\s*=|\^\w"
)
_PERL_FINE = re.compile(
    r"\buse\s+(strict|warnings|utf8|feature|List::Util|Data::Dumper|JSON|JSON::PP"
    r"|POSIX\s*(qw)?\s*[(/'\"]*\s*(floor|ceil|strftime|fmod)[\w\s,]*|bigint|integer|open\s+qw\(:std :utf8\)"
    r"|Time::Local|Time::Piece|Encode|Scalar::Util|Text::\w+|Math::\w+|constant|v?[\d.]+)[^;]*;?"
    r"|\bwhile\s*\(\s*<(STDIN)?>\s*\)|\bEND\s*\{|\bBEGIN\s*\{|\bdo\s*\{"
)
_PERL_SUBSTITUTE = re.compile(
    r"\b(?:s|y|tr)([/|#,!%~])(?:\\.|(?!\1).)*\1((?:\\.|(?!\1).)*)\1(\w*)", re.DOTALL
)
_RUBY = re.compile(
    r"\b(system|exec|spawn|fork|eval|instance_eval|class_eval|module_eval|instance_exec|send|public_send"
    r"|__send__|method|const_get|open|popen\w*|require|require_relative|load|File|FileUtils|Dir|IO|Kernel"
    r"|Process|Socket|TCPSocket|TCPServer|UDPSocket|Net|URI|Open3|Object|Binding|binding|ObjectSpace|Marshal"
    r"|YAML|Fiddle|DL|PTY|Etc|ENV|trap|at_exit|syscall|exit!|Tempfile|Pathname|loop|Thread|unlink|delete"
    r"|rm_rf|rmtree|write|gets|readlines|read|test|define_method|autoload|callcc|abort)\b|`|%x|\bFile\b"
)
_RUBY_FINE = re.compile(
    r"\brequire\s*\(?['\"](json|set|date|time|bigdecimal|securerandom|digest|pp|prime|matrix|yaml|csv"
    r"|English)['\"]\)?|\$stdin\.read|STDIN\.read|\bgets\b(?!\()"
)
_NODE_FINE = frozenset(
    "console log info error warn table JSON stringify parse Math Date Number String Array Object Boolean "
    "BigInt Set Map Symbol RegExp now keys values entries from of map filter reduce forEach join split slice "
    "const let var function return if else for in while do new typeof this true false null undefined NaN "
    "Infinity parseInt parseFloat isNaN isFinite length push pop sort reverse toString toFixed toUpperCase "
    "toLowerCase trim replace replaceAll includes indexOf find some every floor ceil round max min abs sqrt "
    "pow random PI process version versions argv platform arch uptime memoryUsage cwd node v8 async await "
    "then catch finally try throw Error Promise resolve all instanceof of delete void switch case break "
    "continue default class extends toISOString getFullYear getTime toLocaleString padStart padEnd repeat "
    "charCodeAt codePointAt fromCharCode test match flat flatMap fill concat shift unshift splice Intl "
    "DateTimeFormat NumberFormat format isArray assign freeze encodeURIComponent decodeURIComponent btoa "
    "Buffer alloc localeCompare startsWith endsWith substring substr charAt at hasOwn fromEntries setTimeout "
    "nextTick hrtime stdout write x y z i j k n m a b c d e f g s t v w p q r o acc cur val key item data "
    "res obj arr str num sum total result text line name value index pkg".split()
)
_NODE_REQUIRED = re.compile(
    r"\brequire\(\s*['\"](\./[\w./-]*\.json|\./package(\.json)?|path|util|os|url|querystring|assert"
    r"|events|semver|lodash)['\"]\s*\)"
)
_NODE_OS = re.compile(
    r"\.(cpus|platform|arch|EOL|totalmem|freemem|hostname|release|type|inspect|basename|extname"
    r"|dirname|version|dependencies|devDependencies|scripts|engines|main|sep)\b(\(\))?"
)
_PHP = re.compile(
    r"\b(system|exec|shell_exec|passthru|popen|proc_open|pcntl_\w+|posix_\w+|eval|assert"
    r"|create_function|call_user_func\w*|array_map|usort|preg_replace_callback|include\w*|require\w*"
    r"|fopen|fsockopen|pfsockopen|stream_\w+|socket_\w+|curl_\w+|file_get_contents|file_put_contents"
    r"|file|readfile|unlink|rmdir|mkdir|rename|copy|symlink|link|chmod|chown"
    r"|touch|tempnam|glob|scandir|opendir|mail|putenv|getenv|ini_set|dl|phpinfo|unserialize|extract"
    r"|base64_decode|str_rot13|gzinflate|hex2bin|ReflectionFunction|new|while\s*\(\s*1|fwrite|fputs"
    r"|move_uploaded_file|highlight_file|show_source|header|register_\w+)\b|\$_(SERVER|ENV|GET|POST|REQUEST|COOKIE)\b|`|\$\w+\s*\(|\$\{|\$\$"
)
_LUA = re.compile(
    r"\b(os|io|require|load|loadstring|loadfile|dofile|package|debug|ffi|setmetatable|getmetatable|_G"
    r"|_ENV|rawset|rawget|string\.dump|while\s+true|socket|vim)\b"
)
_LUA_FINE = re.compile(r"\bos\.(date|time|clock|difftime)\b|\bio\.write\b|\bio\.read\b|\bio\.lines\(\)")
_R = re.compile(
    r"\b(system2?|shell|unlink|file\.\w+|eval|parse|source|download\.file|url|socketConnection"
    r"|write\w*|save\w*|sink|library|require|install\.packages|Sys\.\w+|readLines|readRDS|load"
    r"|do\.call|get|pipe|fifo|dyn\.load|setwd|repeat)\b"
)
_AWK = re.compile(
    r"\bsystem\s*\(|\|\s*&|\|\s*getline|\|&?\s*\"|\|\s*[a-z]\w*\s*($|[;}])|/inet|@load|@include"
    r"|\bENVIRON\b|\bPROCINFO\b|@\w+\s*\(|\bwhile\s*\(\s*1\s*\)|\bfor\s*\(\s*;\s*;"
)
_AWK_SOCKET = re.compile(r"/inet[46]?/(tcp|udp|raw)")
_AWK_WRITE = re.compile(r">{1,2}\s*(\"[^\"]*\"|[$\w()]+)\s*(?=$|[;}\n])")
_AWK_FINE = re.compile(
    r"\|\s*\"((?:sort|uniq|wc|cat|column|head|tac|nl|tr|cut)\b[^\"]*)\"|\"((?:date|pwd|hostname"
    r"|wc)\b[^\"]*)\"\s*\|\s*getline"
)
_AWK_READ = re.compile(r"getline\s*\w*\s*<\s*\(?\s*(\"[^\"]*\"|[\w$]+)")
_LANGUAGES = {"perl": _PERL, "ruby": _RUBY, "php": _PHP, "lua": _LUA, "R": _R}


_PRINTS = frozenset(
    "print println printf puts say show display write writeln putStrLn main io format sqrt sin cos "
    "exp log pi abs min max sum length VERSION version halt".split()
)
"""Names that code of any language may use."""


def judge_code(call: "Call", language: str, code: str) -> None:
    """Judge code in ``language``: perl, ruby, node, php, lua or R; others are always asked after."""
    if UNKNOWN in code or len(code) > LONGEST:
        call.find("unclear.code", call.name)
    if _is_harmless(language, _judge_node_reads(call, code) if language == "node" else code[:LONGEST]):
        return
    call.find("unclear.code", call.name)
    for match in _STRING.finditer(code[:LONGEST]):
        _judge_string(call, match[1] or match[2] or match[3] or "")


def _judge_string(call: "Call", text: str) -> None:
    """A text in code that does more than print may be a path or a command."""
    text = text.strip()
    if re.match(r"(/|~/|\.\./)[\w./*~-]*$", text):
        call.read(Word(text))
        call.delete(Word(text), deep=True, force=True)
    elif re.match(r"[a-z][\w./-]* +[-/~.\w]", text) and len(text) < 500:
        call.script(text)


def _is_harmless(language: str, code: str) -> bool:
    if language == "node":
        return _is_harmless_node(code)
    pattern = _LANGUAGES.get(language)
    if pattern is None:
        return set(re.findall(r"[A-Za-z_]\w*", _STRING.sub(" ", code))) <= _PRINTS and "#{" not in code
    if language == "perl":
        for match in _PERL_SUBSTITUTE.finditer(code):
            if "e" in match[3] and pattern.search(match[2]):
                return False
        code = _PERL_FINE.sub(" ", _PERL_SUBSTITUTE.sub(" 0 ", code))
        code = re.sub(r"(?<![\w$])m?/(?:\\.|[^/\n\\])*/\w*", " 0 ", code)
    elif language == "ruby":
        code = _RUBY_FINE.sub(" ", code)
    elif language == "lua":
        code = _LUA_FINE.sub(" ", code)
    kept = _STRING.sub(
        lambda match: (
            "`"
            if match[3] is not None
            else '"' + "".join(re.findall(r"#\{[^}]*\}|\$\{[^}]*\}|@\{[^}]*\}", match[0])) + '"'
        ),
        code,
    )
    return not pattern.search(kept)


_NODE_READS = re.compile(
    r"(?:\bfs|\brequire\(\s*['\"](?:node:)?fs['\"]\s*\))\.(?:readFileSync|readdirSync|existsSync|statSync)"
    r"\(\s*(?:'([^'\\]*)'|\"([^\"\\]*)\")\s*(?=[,)])"
)
"""Files that are read by a literal name."""
_NODE_FS = re.compile(r"\b(?:const|let|var)\s+fs\s*=\s*require\(\s*['\"](?:node:)?fs['\"]\s*\)")


def _judge_node_reads(call: "Call", code: str) -> str:
    """Judge the files it reads by name; the rest of the code."""
    for match in _NODE_READS.finditer(code):
        call.read(Word(match[1] or match[2] or ""))
    return _NODE_FS.sub(" ", _NODE_READS.sub("(0", code))


def _is_harmless_node(code: str) -> bool:
    code = _NODE_OS.sub("", _NODE_REQUIRED.sub("0", code))
    parts = []
    for match in _STRING.finditer(code):
        if match[3] is not None:
            parts.extend(re.findall(r"\$\{([^}]*)\}", match[0]))
        elif re.fullmatch(
            r"[\w$]*(constructor|prototype|__\w+__|child_process|fs|net)[\w$]*", (match[1] or match[2] or "")
        ):
            return False
    plain = _STRING.sub(" ", code) + " ".join(parts)
    if re.search(r"\\u|\]\s*\(|while\s*\(\s*(1|true)|for\s*\(\s*;\s*;", plain) or "`" in plain:
        return False
    return all(name in _NODE_FINE or len(name) == 1 for name in re.findall(r"[A-Za-z_$][\w$]*", plain))


def _judge_piped(call: "Call") -> Callable[[re.Match[str]], str]:
    def judge(match: re.Match[str]) -> str:
        call.script(match[1] or match[2])
        return " "

    return judge


def judge_awk_program(call: "Call", program: str) -> None:
    """awk: everything but running commands and writing files is computing."""
    if program == UNKNOWN or len(program) > LONGEST:
        call.find("unclear.code", call.name)
        return
    if _AWK_SOCKET.search(program):
        call.find("network.shell", call.name)
    if "ARGV[" in program or "ARGV [" in program:
        call.find("unclear.code", call.name)
    if re.search(r"\bgetline\b|>\s*[A-Za-z_]", program):
        for match in re.finditer(r'"([/~][^"]*)"', program):
            call.read(Word(match[1]))
            call.write(Word(match[1]))
    program = _AWK_FINE.sub(_judge_piped(call), program)
    bare = re.sub(r"(?<=[~(,!&|{;\s])/(?:\\.|[^/\n\\])*/|^/(?:\\.|[^/\n\\])*/", " 0 ", program)
    quiet = re.sub(r'"(?:\\.|[^"\\])*"', '"', bare)
    if _AWK.search(bare) and (_AWK.search(quiet.replace('"', '"x"')) or _AWK.search(quiet)):
        call.find("unclear.command")
        for match in re.finditer(r'"((?:\\.|[^"\\])*)"', program):
            _judge_string(call, match[1])
    for match in _AWK_READ.finditer(program):
        call.read(Word(match[1].strip('"') if match[1].startswith('"') else UNKNOWN))
    for match in re.finditer(
        r"\bprintf?\b[^;}\n]*?>{1,2}\s*(\"[^\"]*\"|[$\w(][\w$()]*)(?P<rest>[^;}\n]*)", bare
    ):
        target = match[1]
        call.write(
            Word(target.strip('"'))
            if target.startswith('"')
            else Word("awk-output" + ("*" if "/" not in match["rest"] else UNKNOWN))
        )
