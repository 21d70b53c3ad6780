"""Databases: reading is everyday, what drops, truncates or runs programs is not."""

import re

from shared.policy.call import Call, Handler
from shared.policy.expansion import UNKNOWN
from shared.policy.options import Options
from shared.policy.programs.rows import HARMLESS, Step, always, first, row
from shared.policy.words import Word

_DESTROYS = re.compile(
    r"\b(drop\s+(table|database|schema|index|view|user|role|collection|keyspace|owned|function|trigger|column"
    r"|materialized|type)|truncate(\s+table)?\s+\w|delete\s+from\s+[\w.\"`\[\]]+\s*(;|$)"
    r"|alter\s+table\s+\S+\s+drop|drop\w*\s*\(|deletemany\s*\(\s*\{\s*\}|remove\s*\(\s*\{\s*\}|dropdatabase"
    r"|update\s+[\w.\"`]+\s+set\s+(?![^;]*\bwhere\b)[^;]*(;|$)|flushall|flushdb|shutdown|drop\s)",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(insert|update|delete|replace|create|alter|grant|revoke|vacuum|attach|detach|copy|load|merge|set|call"
    r"|do|exec(ute)?|rename|reindex|import|config|eval|script|debug|slaveof|replicaof|migrate|restore|save"
    r"|bgsave|module|acl|insertone|insertmany|updateone|updatemany|deleteone|deletemany|kill|lock|into\s+(out"
    r"|dump)file|load_file|load_extension|writefile|edit|readfile|pg_read_\w+|pg_ls_\w+|lo_import|lo_export"
    r"|pg_sleep|pg_(terminate|cancel)\w*|writable_schema|dblink\w*|xp_cmdshell|sp_\w+|sys_exec|sys_eval"
    r"|system|program|mysql\.user|pg_shadow|pg_authid)\b",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"(?:^|\n|;)\s*(\\(?!d|l|dt|z|conninfo|timing|x|pset|du|dn|df|di|dv|q|c\s)\S+|\.(?!tables|schema"
    r"|headers?|mode|databases|indexes|indices|width|timer|quit|exit|help|show|stats|dbinfo|separator"
    r"|nullvalue|explain|fullschema|dump|version)\w+)\s*([^\n]*)"
)


_LOOKS = re.compile(r"\s*(select|with|show|describe|explain|values|table)\b[^;]*;?\s*$", re.IGNORECASE)
_ASKS = re.compile(
    r"\s*(explain(\s+\((?!analy)[\w ,]*\))?|describe)\s+(select|insert|update|delete|with|table|[\w.]+\s*;?$)"
    r"[^;()]*;?\s*",
    re.IGNORECASE,
).fullmatch
"""One statement that describes another, or a table, and changes nothing."""


def judge_sql_text(call: Call, text: str, local: bool) -> None:
    """Judge statements for a database; ``local``: it is a file of the workspace."""
    if UNKNOWN in text:
        call.find("database.change")
    plain = re.sub(r"'(?:''|[^'])*'", "''", text)
    if _ASKS(plain):
        return
    quoted = not local and _LOOKS.match(plain) is None
    if _DESTROYS.search(plain) or (quoted and _DESTROYS.search(text)):
        call.find("database.destroy")
    elif _CHANGES.search(plain) and not (
        local
        and not re.search(
            r"attach|load_extension|writefile|readfile|edit\(|copy|install|load|drop|delete\s+from|alter"
            r"|update|writable_schema",
            plain,
            re.IGNORECASE,
        )
    ):
        call.find("database.change")
    for match in _OWN.finditer(text):
        call.find("database.change")
        command, rest = match[1].lstrip("\\."), match[2]
        if command.startswith(("shell", "system", "sys", "!", "sh")):
            call.run_hidden(rest or command[1:])
        else:
            for word in rest.split():
                call.read(Word(word.strip("'\"|")))


def judge_sqlite(call: Call) -> None:
    """A file of the workspace; its commands can run programs and read files."""
    found = call.options("cmd separator init nullvalue newline mmap vfs c s")
    operands = found.operands
    for word in found.of("init"):
        call.find("database.change")
        call.read(word)
    for word in operands[:1]:
        if word.text != ":memory:":
            call.read(word)
            if not found.has("readonly") and call.place(word).name not in {"WORKSPACE", "SCRATCH", "UNKNOWN"}:
                call.find("database.change")
            if call.path(word) and call.shell.is_guarded(call.path(word) or ""):
                call.find("guard.tamper")
    for word in [*operands[1:], *found.of("cmd c s")]:
        judge_sql_text(call, word.text, local=True)
    _judge_input(call, len(operands) < 2, local=True)


def _judge_input(call: Call, interactive: bool, local: bool) -> None:
    if not interactive or call.stdin.text == "":
        return
    if call.stdin.text is None:
        call.find("database.change")
    else:
        judge_sql_text(call, call.stdin.text, local)


_POSTGRES = (
    "c command f file h host p port U username d dbname o output v set variable L log-file F R T P pset "
    "field-separator record-separator table-attr"
)
_VALUED = (
    "e execute c command f file h host p P port u user U username d D database dbname o output w password S "
    "socket eval query q Q i log-file init-command v set pset F R T L n a"
)


def judge_sql(call: Call) -> None:
    """Clients of servers: their statements decide."""
    found = call.options(_POSTGRES if call.name in {"psql", "pgcli"} else _VALUED)
    for word in found.of("f file i"):
        call.read(word)
        call.find("database.change")
    call.apply(found, "write o output L log-file")
    texts = found.of("e execute c command eval query q Q init-command")
    for word in texts:
        judge_sql_text(call, word.text, local=False)
    hosts = [word.text for word in found.of("h host")]
    if any(host not in {"localhost", "127.0.0.1", "::1"} and not host.startswith("/") for host in hosts):
        call.find("network.remote")
    if any(word.text in {"delete", "drop", "purge", "destroy", "reset"} for word in found.operands):
        call.find("database.destroy")
    if not texts:
        _judge_input(call, True, local=False)


def _judge_redis_input(call: Call, found: Options) -> None:
    if not found.operands and call.stdin.text != "":
        call.find("database.change")


_REDIS = row(
    "h p a n u s i eval r user pass",
    first(
        Step("database.destroy", words="(?i:FLUSHALL|FLUSHDB|SHUTDOWN|DEL|UNLINK)"),
        Step(
            words="(?i:GET|KEYS|SCAN|INFO|PING|TTL|TYPE|EXISTS|LLEN|LRANGE|HGET|HGETALL|SMEMBERS|DBSIZE|STRLEN"
            "|ZRANGE|MEMORY|TIME|ECHO|HKEYS|SCARD|XLEN|XRANGE|XINFO)"
        ),
        Step("database.change", words="[^ ]+"),
    ),
    _judge_redis_input,
    Step("database.change", has="eval a pass"),
)
"""Their words are the command."""


PROGRAMS: dict[str, Handler] = {
    "sqlite3 sqlite sqlite-utils duckdb litecli": judge_sqlite,
    "psql mysql mariadb mycli pgcli sqlcmd sqlplus isql cqlsh clickhouse-client clickhouse mongo mongosh "
    "usql beeline presto trino cockroach influx osqueryi neo4j cypher-shell": judge_sql,
    "redis-cli valkey-cli keydb-cli memcached-tool": _REDIS,
    "dropdb dropuser mysqladmin mongorestore redis-benchmark": always("database.destroy"),
    "createdb createuser pg_restore mysqlimport mongoimport pg_ctl initdb mysqld postgres vacuumdb reindexdb "
    "clusterdb pg_resetwal etcdctl consul-kv pg_dump pg_dumpall mysqldump "
    "mongodump mongoexport redis-dump": always("database.change"),
    "pg_isready": HARMLESS,
}
