"""Tools of developers that work on the workspace: builds, tests, linters, compilers."""

import re
from itertools import pairwise

from shared.policy import effects
from shared.policy.call import Call, Handler
from shared.policy.checks import judge_tasks, names_effect
from shared.policy.executables import judge_program_arguments, run_written
from shared.policy.expansion import UNKNOWN
from shared.policy.paths import Place
from shared.policy.programs.python_code import judge_python
from shared.policy.programs.rows import HARMLESS
from shared.policy.scope import Stream
from shared.policy.words import Word

_TOOLS = (
    "hugo zola eleventy gatsby remix streamlit mlflow xcodebuild msbuild vue svelte csvkit ruff black mypy "
    "flake8 isort pylint pytest py.test bandit coverage tox nox pre-commit pyright pytype pyre vulture "
    "autopep8 yapf docformatter pydocstyle pyupgrade interrogate sphinx-build sphinx-quickstart mkdocs pdoc "
    "pydoc pydoc3 cython stubgen radon xenon mccabe safety pip-audit pip-compile pip-sync pipdeptree deptry "
    "import-linter lint-imports detect-secrets cookiecutter jupytext nbconvert jupyter alembic django-admin "
    "flask uvicorn gunicorn hypercorn celery scrapy dvc snakemake kedro dbt great_expectations behave mutmut "
    "tsc eslint prettier jest vitest mocha nyc c8 webpack vite rollup esbuild parcel next nuxt astro ts-node "
    "tsx nodemon stylelint playwright cypress tailwindcss postcss babel swc typedoc jsdoc turbo nx lerna ng "
    "vue-cli-service react-scripts storybook karma gulp grunt standard biome oxlint depcheck rspec rubocop "
    "jekyll phpunit phpstan phpcs php-cs-fixer psalm artisan ctest cpack ninja meson bazel bazelisk buck "
    "buck2 scons autoconf automake autoreconf aclocal libtoolize configure gradle gradlew mvn mvnw ant sbt "
    "mill just task doit invoke inv waf xmake premake5 qmake as ranlib strip objcopy objdump gold lld nasm "
    "yasm rustfmt clippy-driver gofmt goimports golangci-lint staticcheck govulncheck gopls gotestsum javac "
    "jar javadoc kotlinc ktlint detekt scalac scalafmt swiftc swiftlint swiftformat csc fsc mcs mono zig nim "
    "dmd ldc2 v fpc ocamlfind dune elm purs spago erlc rebar elixirc tectonic bison yacc flex lex protoc buf "
    "thrift flatc swig gperf ragel antlr4 clang-format clang-tidy cppcheck cpplint include-what-you-use gcov "
    "gcovr lcov genhtml pkg-config pkgconf ccache distcc sccache bear ctags etags cscope global gtags "
    "doxygen shfmt shellharden bats shellspec hadolint dockle tflint tfsec checkov kubeval kubeconform "
    "conftest opa helm-docs ansible-lint yamlfmt taplo dprint editorconfig-checker typos ls-lint commitlint "
    "cz bump2version bumpversion git-cliff openapi-generator swagger-cli redocly spectral graphql-codegen "
    "sqlc sqlfluff pgformatter ogr2ogr protolint jsonnet cue ytt dhall nickel virtualenv pyvenv gettext "
    "xgettext msginit msgmerge intltool-update gitstats gource onefetch hexyl sass lessc stylus csso "
    "uglifyjs terser html-minifier svgo pug marp mmdc plantuml asciidoctor rst2html markdown tre-command ldd "
    "otool install_name_tool dpkg-deb activate deactivate workon mkvirtualenv ipcluster lsp bump tldextract "
    "cspell misspell licensee reuse pip-licenses license-checker npm-check-updates ncu sort-package-json "
    "syncpack manypkg changeset knip madge astyle autoflake ccmake check-jsonschema clang-query comby csvsql "
    "csvtk csvclean csvformat gitlint gofumpt grype trivy semgrep httpstat indent llvm-cov llvm-profdata "
    "markdown-link-check mdbook msgfmt msgcat msgconv msguniq msgattrib msgunfmt nbstripout patchelf "
    "perltidy pydeps pyinstaller pyreverse rust-analyzer scalene memray mprof kernprof pyinstrument "
    "gprof2dot sqldiff stylua trial nosetests prove nbdime nbdiff papermill torchrun accelerate tensorboard "
    "sphinx-apidoc check-manifest towncrier standard-version size-limit mockgen wire blackdoc pycodestyle "
    "pydoclint refurb pyroma rstcheck doc8 textlint alex remark detex texcount chktex lacheck biber bibtex "
    "makeindex coqc agda lake idris hlint ormolu fourmolu stylish-haskell hpack elm-test elm-format pulp "
    "rescript nimble shards zls odin gleam perlcritic rubyfmt standardrb sorbet srb brakeman reek haml erb "
    "slim phpmd phpcbf pest pint rector infection kotlin kotlinc kotlinc-jvm scala-cli sbtn bloop cljfmt upx "
    "xdelta3 pprof cargo-nextest web-ext procs tokei dive gdu"
)


_TESTERS = frozenset("pytest py.test jest vitest mocha rspec phpunit bats behave ctest".split())
"""Their words are names of tests."""


_ELSEWHERE = re.compile(
    r"(https?|git|ssh)://(?!localhost|127\.)\S+|git\+\S+|git@\S+|(gh|gl|bb|github|gitlab):[\w.-]+/\S+"
).fullmatch
"""Sources that are elsewhere: what a tool fetches there it may run."""


def judge_tool(call: Call) -> Stream | None:
    """It works in the workspace; its output files must lie there too."""
    if call.name in {"ccache", "sccache", "distcc"} and call.args and not call.args[0].text.startswith("-"):
        return call.run(call.args)
    if call.name in {"pytest", "py.test"} and any(
        re.match(r"--(rootdir|basetemp)", word.text) for word in call.args
    ):
        _judge_paths(call)
    if call.name == "coverage" and call.args and call.args[0].text == "run":
        words = [word for word in call.args[1:] if not word.text.startswith("--")]
        return call.run([Word("python3"), *words])
    written = call.scope.files.get(call.path(Word("conftest.py")) or "")
    if call.name in {"pytest", "py.test"} and written is not None:
        judge_python(call, written.text if written.text is not None else UNKNOWN)
    if call.name not in _TESTERS:
        judge_tasks(call, call.args)
    if any(_ELSEWHERE(word.text) for word in call.args):
        call.find("network.fetch")
    _judge_paths(call)
    return None


_TAKES_RULES = frozenset(
    "-P -f -c -r -p -I --init-script --file --config --config-file --rcfile --rulesdir --require "
    "--load-plugins".split()
)
"""Options that name what a tool is to do, be it a script, a plug-in or settings."""


_OUTPUTS = frozenset(
    "-o --output -d --target-dir --basetemp --prefix --out-dir --outdir -C --directory".split()
)
_REWRITE = frozenset(
    "black isort autopep8 yapf docformatter pyupgrade autoflake prettier gofmt goimports gofumpt rustfmt "
    "clang-format shfmt eslint standard biome dprint stylua ruff".split()
)
"""Formatters: they write what they are given."""


def _judge_paths(call: Call) -> None:
    previous = ""
    for word in call.args:
        text = word.text
        if text.startswith(("--init-hook", "--load-plugins=/")):
            call.find("unclear.code", call.name)
        if text.startswith("-") and "=" in text:
            text = text.partition("=")[2]
        elif call.name in _TESTERS and not previous.startswith("-") and call.place(word) is Place.SCRATCH:
            call.find("run.outside", text)
        elif call.name in _REWRITE and "/" in text and call.place(word) is Place.SYSTEM:
            call.write(word)
        attached = re.match(r"-[IoLC](.+)", text)
        value = Word(attached[1] if attached else text, word.glob, word.obfuscated)
        where = call.place(value) if "/" in value.text or value.text.startswith("~") else Place.WORKSPACE
        if previous in _OUTPUTS:
            effects.write(call.shell, call.scope, value, create=True)
        elif previous in _TAKES_RULES and where not in {Place.WORKSPACE, Place.UNKNOWN}:
            call.find("run.outside", value.text)
        elif where is not Place.SYSTEM or not re.match(r"/(usr|opt)/", value.text):
            call.read(value)
        previous = text


_RECORDERS = frozenset("x11grab gdigrab avfoundation kmsgrab fbdev v4l2 alsa pulse dshow jack".split())
"""Formats that are a screen, a camera or a microphone."""


_CONVERTER_RUNS = re.compile(
    r"--?(shell-escape|enable-write18|lua-filter|filter|F$|pdf-engine-opt|L$|infilter|macro|extract-media|dNOSAFER)"
    r"|-(e|pdflatex|latex)$|.*(write18|macro:)",
    re.DOTALL,
)
_COMPILER_RUNS = re.compile(
    r"-wrapper|-fplugin|-B/|-specs|@|-Xclang|-load|--plugin|-plugin|-Clinker|-agentpath|-javaagent"
)


def judge_converter(call: Call) -> None:
    """Pictures, films, documents: from file to file, unless an argument makes it fetch or run something."""
    for word in call.args:
        text = word.text
        if text in _RECORDERS:
            call.find("unknown.use")
        if re.match(r"\||ephemeral:|msl:|vid:|https?:|ftp:|rtmp:|tcp:|udp:|concat:|label:@|@", text):
            call.find("network.fetch" if "://" in text else "unclear.command")
        elif _CONVERTER_RUNS.match(text):
            call.find("unclear.command")
    judge_program_arguments(call)


def judge_compiler(call: Call) -> None:
    """Compilers read sources and write programs; some options load or run others."""
    for word in call.args:
        if _COMPILER_RUNS.match(word.text):
            call.find("unclear.command")
    texts = [word.text for word in call.args]
    for text, value in pairwise(texts):
        if text == "-wrapper":
            call.script(value.replace(",", " "))
    _judge_paths(call)
    for word, target in pairwise(call.args):
        if word.text == "-o":
            effects.write(call.shell, call.scope, target)


def judge_java(call: Call) -> None:
    """java runs what was built here."""
    for word in call.args:
        if re.match(r"-(agentpath|agentlib|javaagent|XX:OnError|XX:OnOutOfMemoryError)", word.text):
            call.find("unclear.command")
        if word.text.endswith(".jar") and call.path(word) in call.scope.files:
            run_written(call, call.path(word) or "")
    _judge_paths(call)


def judge_rake(call: Call) -> None:
    """rake and its like take code on the command line."""
    if call.options("e execute E p f").has("e execute E p"):
        call.find("unclear.code", call.name)
    if [word.text for word in call.args[:1]] in (["runner"], ["r"]):
        call.find("unclear.code", call.name)
    judge_tasks(call, call.args)
    _judge_paths(call)


def judge_calculator(call: Call) -> None:
    """bc and dc compute; dc runs lines that begin with !."""
    texts = [word.text for word in call.args] + [call.stdin.text or ""]
    if call.name == "dc" and any("!" in text for text in texts):
        call.find("unclear.command")
        for text in texts:
            if "!" in text:
                call.script(text.partition("!")[2].strip("'\""))
    for word in call.options("e f expression file").of("f file"):
        call.read(word)


_CMAKE_COMMANDS = {
    "rm": "rm", "remove": "rm", "remove_directory": "rm -rf", "copy": "cp", "copy_directory": "cp -r",
    "copy_if_different": "cp", "rename": "mv", "cat": "cat", "touch": "touch", "make_directory": "mkdir -p",
    "create_symlink": "ln -s", "create_hardlink": "ln", "env": "env", "tar": "tar", "time": "time",
    "md5sum": "md5sum", "sha256sum": "sha256sum", "compare_files": "cmp", "echo": "echo", "sleep": "sleep",
}  # fmt: skip


def judge_cmake(call: Call) -> Stream | None:
    """cmake builds; -E makes it one of the system's small programs, -P runs a script of its own."""
    words = list(call.args)
    if words and words[0].text == "-E":
        name = words[1].text if len(words) > 1 else ""
        if name == "chdir" and len(words) > 3:
            call.scope = call.scope.branch()
            call.scope.cwd = call.path(words[2])
            return call.run(words[3:])
        if name in _CMAKE_COMMANDS:
            return call.run([*(Word(part) for part in _CMAKE_COMMANDS[name].split()), *words[2:]])
        if name not in {"", "capabilities", "environment", "true", "false"}:
            call.find("unknown.use")
        elif name == "environment":
            return Stream(None, None, "environment")
        return None
    return judge_tool(call)


def judge_make(call: Call) -> None:  # noqa: PLR0912 - one branch a kind
    """make runs what the Makefile says; variables and text given to it may run more."""
    found = call.options("f C j I l o W file directory makefile jobs eval include-dir t")
    if found.has("eval"):
        call.find("unclear.command")
        for word in found.of("eval"):
            for inner in re.findall(r"\$\(shell ([^)]*)\)|\n\t@?(.*)", word.text):
                call.script("".join(inner))
    for word in found.of("f file makefile"):
        if word.text in {"-", "/dev/stdin"} or call.path(word) in call.scope.files:
            call.find("unclear.input", call.name)
        elif call.place(word) is not Place.WORKSPACE:
            call.find("run.outside", word.text)
    for word in found.of("C directory"):
        path = call.path(word) or ""
        if call.scope.is_fetched(path):
            call.find("run.download")
        elif call.place(word) not in {Place.WORKSPACE, Place.UNKNOWN}:
            call.find("run.outside", word.text)
    rehearsed = found.has("n just-print dry-run recon q question p print-data-base")
    for word in () if rehearsed else found.operands:
        name, equals, value = word.text.partition("=")
        if equals and name in {"SHELL", "MAKEFLAGS", ".SHELLFLAGS"}:
            call.find("run.preload")
        elif equals and re.search(r"[;|&`]|\$\(", value):
            call.run_hidden(value)
        elif equals and name in {"DESTDIR", "PREFIX", "prefix"}:
            call.write(Word(value), create=True)
        elif word.text in {"install", "uninstall"} and not any(
            one.text.startswith(("DESTDIR=", "PREFIX=", "prefix=")) for one in found.operands
        ):
            call.find("write.system", "make install")
        elif not equals and names_effect(word.text):
            call.find("task.effect")
    if rehearsed and any("=" in word.text for word in found.operands):
        call.find("unknown.use")
    if call.scope.is_fetched(call.scope.cwd or ""):
        call.find("run.download")
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if call.path(Word(name)) in call.scope.files:
            call.find("run.written", name)


_CONVERTERS = (
    "ffmpeg ffprobe sox convert magick composite mogrify montage identify pandoc latex pdflatex xelatex "
    "lualatex latexmk tex inkscape libreoffice soffice exiftool pdftk qpdf optipng jpegoptim pngquant cwebp "
    "dwebp rsvg-convert img2pdf wkhtmltopdf ps2pdf pdfunite pdfseparate pdftoppm pdfcrop epstopdf ps2eps "
    "exiv2 jhead jpegtran gifsicle pngcrush pngcheck advpng flac lame oggenc opusenc mp3info id3v2 mkvmerge "
    "mkvinfo mp4box chafa qrencode tesseract dvips dvipdfm convert-im6 mogrify-im6"
)
PROGRAMS: dict[str, Handler] = {
    _TOOLS: judge_tool,
    "gcc g++ cc c++ clang clang++ cpp ld rustc tcc gfortran": judge_compiler,
    _CONVERTERS: judge_converter,
    "java": judge_java,
    "rake rails": judge_rake,
    "bc dc": judge_calculator,
    "asciinema": HARMLESS,
    "make gmake bmake": judge_make,
    "cmake": judge_cmake,
}
