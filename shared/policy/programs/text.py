"""Programs that read, print and change texts."""

import re

from shared.policy import secrets
from shared.policy.call import Call, Handler
from shared.policy.options import Options
from shared.policy.paths import is_table
from shared.policy.programs.rows import Reads, Step, reader_of, row
from shared.policy.scope import NOTHING, Stream

LS = Reads(
    "I w T ignore width tabsize color format hide indicator-style quoting-style sort time time-style "
    "block-size"
)
_TABLE = {
    "blkid btop duf glances gprof gstat hwinfo lpstat lshw lsmod mdls modinfo pwdx quota sync sw_vers "
    "system_profiler vm_stat iotop iftop nethogs suspend cmatrix sl primes random clinfo fastfetch inxi nmon "
    "dstat atop nload vnstat pfetch screenfetch upower tzselect atq sestatus aa-status getenforce test [ [[ "
    "mountpoint findmnt lsblk locale getconf uname arch nproc tty whoami id groups users logname hostid "
    "uptime free vmstat lscpu lsusb lspci cal ncal sleep expr factor numfmt units tput "
    "clear reset stty jot getopt getopts shift return exit break continue wait let "
    "jobs bg fg logout fzf disown shopt times dirs tabs setterm figlet toilet "
    "cowsay fortune banner lolcat caller apropos whatis whereis which tldr cheat type help uuidgen": Reads(
        skip=99
    ),
    "meld kdiff3 enscript a2ps recode ispell xattr plutil": Reads("o", writes="o"),
    "dos2unix unix2dos sponge": Reads(last=0),
    "rev tac nl expand unexpand paste col colrm iconv bat batcat ccat pv unfmt": Reads(
        "d s b w v n t f h l i from-code to-code delimiters style language L", writes="o output", passes=True
    ),
    "cut": Reads("d f c b delimiter fields characters bytes output-delimiter", passes=True, queries=True),
    "tr": Reads(skip=9, passes=True),
    "fold": Reads("w width", passes=True),
    "fmt": Reads("w p g width", passes=True),
    "strings": Reads("n t e a bytes radix encoding", passes=True),
    "od": Reads(
        "t N j w A S format read-bytes skip-bytes width address-radix", passes=True, bounds="N read-bytes"
    ),
    "hexdump": Reads("e f n s", reads="f", passes=True, bounds="n"),
    "hd": Reads("e f n s", passes=True, bounds="n"),
    "column": Reads("s t o c N H R W d T E separator output-separator table-columns table-right"),
    "comm": Reads("output-delimiter", queries=True),
    "join": Reads("t 1 2 o e a v j i", queries=True),
    "wc": Reads(reads="files0-from", queries=True),
    "look xq": Reads(skip=1),
    "tsort cksum sum csvstat csvlook csvjson in2csv zless zmore bzless bzmore xzless zdiff zcmp bzdiff "
    "xzdiff zipinfo xxhsum tload ptx spell isutf8 combine dircolors pmap": Reads(),
    "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum shasum md5 b3sum": Reads("a algorithm l"),
    "uniq": Reads("f s w skip-fields skip-chars check-chars group all-repeated", last=1, queries=True),
    "diff": Reads(
        "x X I U C W F S label exclude exclude-from ignore-matching-lines unified context width "
        "starting-file to-file from-file color",
        reads="X exclude-from from-file to-file",
        queries=True,
    ),
    "diff3 sdiff colordiff wdiff icdiff difft delta diffstat": Reads("o w x U", writes="o"),
    "cmp": Reads("i n ignore-initial bytes"),
    "tail": Reads("n c s lines bytes pid sleep-interval max-unchanged-stats", passes=True, queries=True),
    "pr": Reads("h l n o s w W S N D e i columns header length"),
    "shuf": Reads("n i o e head-count input-range output", writes="o output"),
    "jq": Reads(
        "f L arg argjson slurpfile rawfile indent from-file tab argfile", reads="f from-file", skip=1
    ),
    "yq": Reads("o p I indent output-format", skip=1, inplace="i inplace"),
    "gron jid jless htmlq what ident rs vis unvis": Reads("f o t w a"),
    "dasel": Reads("f s r w p", skip=1, refuse="o"),
    "xmllint": Reads(
        "xpath o output schema relaxng dtdvalid format encode", reads="schema relaxng", writes="o output"
    ),
    "xmlstarlet": Reads("t m v o n i", skip=3),
    "csvcut": Reads("c C d"),
    "csvgrep": Reads("c m r f d"),
    "csvsort": Reads("c d"),
    "mlr": Reads("f", skip=1, inplace="I"),
    "xsv": Reads("s d", skip=1),
    "tidy": Reads("e", inplace="m modify"),
    "zcat bzcat xzcat lzcat zstdcat gzcat lz4cat b64": Reads(passes=True),
    "file": Reads("m f F e P", reads="f m files-from magic-file", refuse="C", names_only=True),
    "stat": Reads("c f printf format t", names_only=True),
    "dir vdir exa eza lsd readlink realpath dirname pathchk namei getfacl lsattr": Reads(
        "s suffix relative-to relative-base z", names_only=True
    ),
    "tree": Reads(
        "L P I H T o charset filelimit timefmt sort matchdirs filesfrom gitfile", writes="o", names_only=True
    ),
    "du": Reads(
        "d t B X max-depth threshold block-size exclude exclude-from time time-style files0-from",
        reads="X exclude-from files0-from",
        names_only=True,
    ),
    "df": Reads("t x B type exclude-type block-size output", names_only=True),
    "dust": Reads("d n X", names_only=True),
    "ncdu": Reads("o f", writes="o", names_only=True),
    "cloc sloccount scc wordcount pygmentize highlight glow mdcat aspell hunspell pdftotext "
    "pdfinfo pdfgrep mediainfo soxi sqlformat shellcheck yamllint jsonlint xmlwf "
    "markdownlint mdl vale write-good proselint codespell actionlint checkbashisms nm readelf size c++filt "
    "addr2line lsb_release 7z2": Reads("x l o c f s d e", writes="output"),
    "dot": Reads("T K G N E", writes="o"),
    "pidstat": Reads(runs="e", skip=99),
    "dmidecode": Reads("s t", skip=99, refuse="dump-bin from-dump"),
    "catdoc antiword unrtf html2text xlsx2csv ledger hledger qalc catppt xls2csv docx2txt odt2txt munpack "
    "ripmime": Reads("f o d", writes="o"),
    "datamash": Reads("t R", skip=99, passes=True),
    "xdg-mime": Reads(skip=99, refuse="default install uninstall"),
    "compgen": Reads("A", skip=99, refuse="C F W v"),
    "lsof": Reads("p u i c d"),
    "watchman": Reads(skip=99, refuse="trigger"),
    "info": Reads("o", writes="o output", skip=99),
    "patch": Reads(
        "p d D r F V i strip input directory",
        reads="i input",
        writes="o output r d directory",
        inplace="never",
    ),
    "ts": Reads(skip=99, passes=True),
    "mcookie pwgen ascii unicode pidof pstree w who iostat mpstat sensors acpi neofetch lsns ipcs": Reads(
        skip=9
    ),
    "hash": Reads("p", skip=9, refuse="p"),
    "pgrep": Reads("u U g G P s t F f l", skip=9),
    "top": Reads("n d p u o b", skip=9),
    "htop": Reads("d u p s", skip=9),
    "sar": Reads("o f", writes="o", skip=9),
    "nvidia-smi": Reads("i q d l", skip=9, refuse="r gpu-reset pl pm"),
}


def judge_cat(call: Call) -> Stream | None:
    """What it is fed, or a file the script itself wrote, goes on as it is."""
    found = call.options()
    streams = []
    for word in found.operands:
        if word.text in {"-", "/dev/stdin"}:
            streams.append(call.stdin)
        elif is_table(call.path(word) or "") and call.query(word):
            streams.append(Stream(source=call.path(word) or ""))
        else:
            streams.append(call.shell.reads(word, call.scope))
    if not found.operands:
        return call.stdin
    if len(streams) == 1:
        return streams[0]
    texts = [stream.text for stream in streams]
    source = next((stream.source for stream in streams if stream.source), "")
    text = "".join(text or "" for text in texts) if None not in texts else None
    return Stream(text, None, source, any(stream.endless for stream in streams))


def judge_tee(call: Call) -> Stream | None:
    """It writes files and passes on what it is fed."""
    for word in call.options("output-error").operands:
        call.write(word, output=call.stdin)
    return call.stdin


def judge_grep(call: Call) -> Stream | None:
    """It reads files, all of a folder with -r; what it looks for may be credentials."""
    found = call.options(
        "e f m A B C D d color colour include exclude exclude-dir exclude-from regexp file max-count "
        "after-context before-context context binary-files label g glob t type T type-not iglob M "
        "max-columns pre pre-glob j threads"
    )
    if found.has("pre"):
        call.find("unclear.command")
    call.apply(found, "read f file exclude-from")
    patterns = found.of("e regexp")
    operands = found.operands
    if not patterns and not found.has("f file files"):
        patterns, operands = operands[:1], operands[1:]
    deep = call.name in {"rgrep", "rg", "ag", "ack"} or found.has("r R recursive dereference-recursive")
    outside = False
    for word in operands:
        call.read(word, deep) if deep else call.query(word)
        outside |= call.place(word).name in {"HOME", "SYSTEM", "KERNEL", "ELSEWHERE"} and deep
        if call.is_endless(word):
            call.find("exhaust.endless")
    if outside and any(secrets.is_sought(word.text) for word in patterns):
        call.find("secret.search")
    listed = any("l" in flag and "-" not in flag for flag in found.flags) or found.has("files-with-matches")
    paths = tuple(f"{word.text.rstrip('/')}/found*" if deep else word.text for word in operands)
    return Stream(None, paths if listed and paths else None, "computed", call.stdin.endless and not operands)


def judge_head(call: Call) -> Stream | None:
    """It ends what is endless; much of it still fills a disk."""
    found = call.options("n c lines bytes")
    for word in found.of("c bytes"):
        if is_large(word.text):
            call.find("exhaust.large")
    for word in found.operands:
        call.query(word)
        if call.is_endless(word) and not found.has("c bytes n lines"):
            call.find("exhaust.endless")
    text = call.stdin.text
    whole = not found.operands and text and "\n" not in text.strip("\n") and not found.has("c bytes")
    return Stream(text if whole else None, call.stdin.paths, call.stdin.source or "computed")


def is_large(size: str) -> bool:
    """Whether a size such as ``10G`` is beyond 2 GB, more than the everyday."""
    digits = size.strip("+-=").rstrip("iBbytes ")
    unit = digits[-1:].upper()
    factor = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}.get(unit, 0)
    try:
        return float(digits[:-1] if factor else digits) * float(1024**factor) > 2 * 1024**3
    except ValueError:
        return False


def judge_split(call: Call) -> None:
    """split writes pieces; ``--filter`` runs a command for each."""
    found = call.options(
        "a b C l n t filter additional-suffix suffix-length bytes lines line-bytes number separator f prefix"
    )
    for word in found.of("filter"):
        if re.match(r"\s*(\S*/)?(ba|da|z|k|a)?sh\b", word.text):
            call.find("unclear.command")
        call.script(word.text)
    call.apply(found, "read :1")
    for word in [*(found.operands[1:2] if call.name == "split" else ()), *found.of("f prefix")]:
        call.write(word)


def judge_pager(call: Call) -> Stream | None:
    """A pager: its options can run other programs."""
    found = call.options("o O k T p x y z P t b h j log-file LOG-FILE tag pattern prompt")
    for word in [*found.of("o O log-file LOG-FILE")]:
        call.write(word)
    for word in found.operands:
        if word.text.startswith("+!") or word.text.startswith("+|"):
            call.run_hidden(word.text[2:])
        elif not word.text.startswith("+"):
            call.read(word)
    return call.stdin if not found.operands else None


def judge_ls(call: Call) -> Stream | None:
    """It lists names: those asked for, or those of the folder it is in."""
    found = call.options(LS.options)
    call.apply(found, "stat 0:")
    names = [word.text for word in found.operands if word.glob]
    return Stream(None, tuple(names) or ("*",))


def _decode(call: Call, found: Options) -> Stream:
    source = "network" if call.stdin.source == "network" else "computed"
    return Stream(None, None, source, call.stdin.endless and not found.operands)


_DECODER = row(
    "w wrap i o c l s g cols len seek input output",
    Step(does="read :1"),
    Step(program="xxd uuencode uudecode", does="write 1:"),
    Step(does="write o output"),
    output=_decode,
)
"""base64, xxd and the like: what comes out was not readable before."""


def _judge_endless_input(call: Call, found: Options) -> None:
    if call.stdin.endless and not found.operands:
        call.find("exhaust.endless")


_SORT = row(
    "k t S T o output key field-separator buffer-size temporary-directory compress-program parallel "
    "batch-size files0-from random-source sort",
    _judge_endless_input,
    Step("unclear.command", given="compress-program", does="run compress-program"),
    Step(does="write o output; query+ends 0:; query+ends files0-from random-source"),
    output=Stream(source="computed"),
)


PROGRAMS: dict[str, Handler] = {
    **{names: reader_of(spec) for names, spec in _TABLE.items()},
    ": true false": row("", output=NOTHING),
    "ls gls": judge_ls,
    "cat": judge_cat,
    "tee": judge_tee,
    "grep ggrep egrep fgrep rgrep rg ag ack zgrep bzgrep xzgrep zegrep zfgrep pcregrep": judge_grep,
    "head": judge_head,
    "base64 base32 basenc xxd uuencode uudecode base58 basez": _DECODER,
    "sort gsort": _SORT,
    "split csplit": judge_split,
    "less more most pg": judge_pager,
}
