"""What each program that reads and prints does with its words."""

from shared.policy.call import Handler
from shared.policy.programs.rows import Reads, reader_of

LS = Reads(
    "I w T ignore width tabsize color format hide indicator-style quoting-style sort time time-style "
    "block-size"
)
_TABLE = {
    "blkid btop duf getcap glances gprof gstat hwinfo lpstat lshw lsmod mdls modinfo pwdx quota sync sw_vers "
    "system_profiler vm_stat iotop iftop nethogs suspend cmatrix sl primes random clinfo fastfetch inxi nmon "
    "dstat atop nload vnstat pfetch screenfetch upower tzselect atq sestatus aa-status getenforce test [ [[ "
    "mountpoint findmnt lsblk locale getconf uname arch nproc tty whoami id groups users logname hostid "
    "uptime free vmstat lscpu lsusb lspci cal ncal pwd sleep true false : expr factor numfmt units tput "
    "clear reset stty seq jot getopt getopts shift return exit break continue wait let local readonly "
    "declare typeset export jobs bg fg logout fzf disown shopt times popd dirs tabs setterm figlet toilet "
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
    "dir vdir exa eza lsd readlink realpath basename dirname pathchk namei getfacl lsattr": Reads(
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
    "cloc sloccount tokei scc wordcount onefetch pygmentize highlight glow mdcat aspell hunspell pdftotext "
    "pdfinfo pdfgrep identify mediainfo ffprobe soxi sqlformat shellcheck hadolint yamllint jsonlint xmlwf "
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
    "csplit": Reads("f b n prefix suffix-format digits", writes="f prefix"),
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
PROGRAMS: dict[str, Handler] = {}
for _names, _spec in _TABLE.items():
    PROGRAMS |= dict.fromkeys(_names.split(), reader_of(_spec))
