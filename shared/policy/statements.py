"""What each construct of the shell does with the commands in it: lists, pipelines, branches, functions."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from shared.policy.commands import (
    judge_assignment,
    judge_command,
    judge_declaration,
    judge_unset,
)
from shared.policy.loops import judge_loop
from shared.policy.quoting import holds_subscript
from shared.policy.redirects import Redirects
from shared.policy.scope import NOTHING, UNREAD, Scope, Stream, concatenate

if TYPE_CHECKING:
    from tree_sitter import Node

    from shared.policy.reader import Reader

_WORDS = {
    "word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "number",
    "simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion",
}  # fmt: skip
_SIDE_BY_SIDE = re.compile(rb"[\w.'\"]\s+-?[A-Za-z/~'\"]")
_SUBSTITUTED = re.compile(rb"\$\([^()]*\)")
_TRUSTED = frozenset(
    "sudo su ls cd cat rm cp mv git ssh scp grep find ps docker kubectl echo printf env "
    "sh bash python3 make chmod".split()
)
"""Programs that a function of the same name would only be mistaken for."""


def judge_arithmetic(reader: "Reader", node: "Node") -> None:
    """Two words side by side are no arithmetic: the shell may take them for a command."""
    if _SIDE_BY_SIDE.search(_SUBSTITUTED.sub(b"0", node.text or b"")):
        reader.find("unclear.syntax")


def _named(node: "Node") -> list["Node"]:
    return [child for child in node.children if child.is_named]


def _program(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    named = _named(node)
    return reader.walk(named[0], scope) if len(named) == 1 else reader.sequence(node.children, scope)


def _subshell(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    return _program(reader, node, scope.branch())


def _list(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    if node.children and node.children[0].type == "((":
        judge_arithmetic(reader, node)
    return reader.sequence(node.children, scope)


def _chain(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    """``a && b && c`` or ``a || b``: what is behind the first may not run, so what it sets may not be set."""
    sign, (first, *rest) = _flatten(node)
    if not rest:
        return reader.sequence(node.children, scope)
    outputs = [reader.walk(first, scope)]
    maybe = scope.branch()
    for part in rest:
        reader.settle(outputs[-1])
        outputs.append(reader.walk(part, maybe))
    if sign == "&&":
        scope.cwd = maybe.cwd
    scope.join(maybe)
    return concatenate(outputs)


def _flatten(node: "Node") -> tuple[str, list["Node"]]:
    """The sign between the parts of a chain, and the parts."""
    sign = ""
    parts: list[Node] = []
    while node.type == "list" and len(node.children) == 3:
        left, between, right = node.children
        if parts and not sign == between.type == "&&":
            break
        sign, node = between.type, left
        parts.append(right)
    return sign, [node, *reversed(parts)]


def _pipeline(reader: "Reader", node: "Node", scope: Scope, extra: Sequence["Node"] = ()) -> Stream:
    # Each part runs in a shell of its own: what it sets does not reach the others.
    output, named = scope.stdin, _named(node)
    for child in named:
        inner = scope.branch()
        inner.stdin = output
        output = _extended(reader, child, inner, extra if child.id == named[-1].id else ())
    return output


def _extended(reader: "Reader", node: "Node", scope: Scope, extra: Sequence["Node"]) -> Stream:
    """Judge ``node``; ``extra`` are words of its last command that stand behind a redirection."""
    if node.type == "command":
        return judge_command(reader, node, scope, extra)
    if not extra:
        return reader.walk(node, scope)
    if node.type == "pipeline":
        return _pipeline(reader, node, scope, extra)
    named = _named(node)
    if node.type == "negated_command" and named:
        return _extended(reader, named[-1], scope, extra)
    reader.find("unclear.syntax")
    return reader.walk(node, scope)


def _redirected(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    whole = node.child_by_field_name("body")
    body = _redirected_part(reader, whole, scope)
    redirects = Redirects(reader, scope)
    for child in node.children:
        if whole is None or child.id != whole.id:
            redirects.take(child)
    before = scope.stdin
    if redirects.stdin is not None:
        scope.stdin = redirects.stdin
    try:
        if body is None:
            output = NOTHING
        elif body.type == "pipeline" and redirects.stdin is not None:
            output = _fed_pipeline(reader, body, scope, redirects)
        else:
            output = _extended(reader, body, scope, redirects.arguments)
    finally:
        scope.stdin = before
    return redirects.finish(output)


def _redirected_part(reader: "Reader", body: "Node | None", scope: Scope) -> "Node | None":
    """The redirection belongs to the last command of a list alone; those before it are judged here."""
    while body is not None and body.type == "list":
        first, *_, last = _named(body) or [body]
        if first.id == last.id:
            break
        reader.settle(reader.walk(first, scope))
        body = last
    return body


def _fed_pipeline(reader: "Reader", node: "Node", scope: Scope, redirects: Redirects) -> Stream:
    """A here-document after a pipeline feeds the last command; what the pipe carries counts too."""
    inner = scope.branch()
    inner.stdin = redirects.stdin or UNREAD
    _extended(reader, _named(node)[-1], inner, redirects.arguments)
    inner.stdin = UNREAD
    return _pipeline(reader, node, inner, redirects.arguments)


def _function(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name_node is None or body is None:
        return NOTHING
    name = (name_node.text or b"").decode(errors="replace")
    scope.functions[name] = body
    if name in _TRUSTED and f"command {name}".encode() not in (body.text or b""):
        reader.find("run.renamed", f"A function called {name}")
    inner = scope.branch()
    inner.active = (*scope.active, name)
    inner.stdin = UNREAD
    reader.walk(body, inner)
    return NOTHING


def _if(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    branches, complete = [scope.branch()], False
    for child in node.children:
        if child.type in {"elif_clause", "else_clause"}:
            complete |= child.type == "else_clause"
            branches.append(scope.branch())
            reader.sequence(child.children, branches[-1])
        elif child.is_named:
            reader.settle(reader.walk(child, branches[0]))
    return _merge(scope, branches, complete)


def _case(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    branches = []
    for child in node.children:
        if child.type == "case_item":
            branches.append(scope.branch())
            for part in child.children:
                if part.is_named and part.type not in _WORDS | {"extglob_pattern"}:
                    reader.walk(part, branches[-1])
                else:
                    reader.visit(part, branches[-1])
        elif child.is_named:
            reader.visit(child, scope)
    return _merge(scope, branches, complete=False)


def _merge(scope: Scope, branches: Sequence[Scope], complete: bool) -> Stream:
    if complete:
        scope.adopt(branches[0])
    for branch in branches:
        scope.join(branch)
    return UNREAD


def _words_only(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    if node.type == "test_command" and holds_subscript((node.text or b"").decode(errors="replace")):
        reader.find("unclear.spelling", "A part of it")
    reader.visit(node, scope)
    return NOTHING


STATEMENTS: Mapping[str, Callable[["Reader", "Node", Scope], Stream]] = {
    "program": _program,
    "list": _chain,
    "compound_statement": _list,
    "do_group": _list,
    "subshell": _subshell,
    "pipeline": _pipeline,
    "redirected_statement": _redirected,
    "command": judge_command,
    "variable_assignment": judge_assignment,
    "declaration_command": judge_declaration,
    "unset_command": judge_unset,
    "function_definition": _function,
    "if_statement": _if,
    "case_statement": _case,
    "while_statement": judge_loop,
    "for_statement": judge_loop,
    "c_style_for_statement": judge_loop,
    "test_command": _words_only,
    "binary_expression": _words_only,
    "unary_expression": _words_only,
    **dict.fromkeys(_WORDS, _words_only),
}
"""By kind of node; of any other kind what it holds is judged in turn."""
